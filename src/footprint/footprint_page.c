/* The page: one HTML file that needs no network. Its data is the JSON object, in which no string
 * can end the script element (profile/json_text.h). */
#include "footprint/footprint.h"
#include "footprint/treemap_page.h"

struct error *footprint_write_page(const struct footprint *f, FILE *out)
{
	struct error *err;

	fwrite(treemap_before_data, 1, treemap_before_data_size, out);
	err = footprint_write_json(f, out);
	fwrite(treemap_after_data, 1, treemap_after_data_size, out);
	return err;
}
