#include "image/amd64.h"

#include <string.h>

/*
 * The bytes after the opcode:
 *   .  nothing                     m  ModRM
 *   1  a byte                      b  ModRM and a byte
 *   2  two bytes                   z  ModRM and an operand: 4 bytes, or 2
 *   3  three bytes                 B  ModRM and, of the first two of the group, a byte
 *   4  an operand: 4 bytes, or 2   Z  ModRM and, of the first two of the group, an operand
 *   r  a distance of 4 bytes       i  an operand of up to 8 bytes
 *   x  it is no instruction        o  an address of 8 bytes
 */
static const char one_byte[] = "mmmm14xxmmmm14xx"
			       "mmmm14xxmmmm14xx"
			       "mmmm14xxmmmm14xx"
			       "mmmm14xxmmmm14xx"
			       "xxxxxxxxxxxxxxxx"
			       "................"
			       "xxxmxxxx4z1b...."
			       "1111111111111111"
			       "bzxbmmmmmmmmmmmm"
			       "..........x....."
			       "oooo....14......"
			       "11111111iiiiiiii"
			       "bb2.xxbz3.2..1x."
			       "mmmmxxx.mmmmmmmm"
			       "11111111rrx1...."
			       "x.xx..BZ......mm";

static const char behind_0f[] = "mmmmx.....x.xm.b"
				"mmmmmmmmmmmmmmmm"
				"mmmmxxxxmmmmmmmm"
				"......x.xxxxxxxx"
				"mmmmmmmmmmmmmmmm"
				"mmmmmmmmmmmmmmmm"
				"mmmmmmmmmmmmmmmm"
				"bbbbmmm.mmmmmmmm"
				"rrrrrrrrrrrrrrrr"
				"mmmmmmmmmmmmmmmm"
				"...mbmxx...mbmmm"
				"mmmmmmmmmmbmmmmm"
				"mmbmbbbm........"
				"mmmmmmmmmmmmmmmm"
				"mmmmmmmmmmmmmmmm"
				"mmmmmmmmmmmmmmmm";

enum { REX_B = 1, REX_X = 2, REX_R = 4, REX_W = 8 };

/* The rest of the instruction's bytes. */
struct bytes {
	const uint8_t *at;
	size_t left;
	bool failed;
};

static uint8_t take(struct bytes *b)
{
	if (!b->left) {
		b->failed = true;
		return 0;
	}
	b->left--;
	return *b->at++;
}

static uint8_t peek(const struct bytes *b)
{
	return b->left ? *b->at : 0;
}

static int32_t take_signed(struct bytes *b, size_t size)
{
	uint32_t value = 0;

	for (size_t i = 0; i < size; i++)
		value |= (uint32_t)take(b) << 8 * i;
	return size == 1 ? (int8_t)value : (int32_t)value;
}

static void set_rex(struct amd64_insn *insn, uint8_t bits)
{
	insn->rex = bits & (REX_R | REX_X | REX_B);
	insn->is_wide = bits & REX_W;
}

static void take_prefixes(struct bytes *b, struct amd64_insn *insn)
{
	static const uint8_t prefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65,
					   0x66, 0x67, 0xf0, 0xf2, 0xf3};
	uint8_t rex = 0;

	for (;; take(b)) {
		uint8_t byte = peek(b);
		bool is_rex = (byte & 0xf0) == 0x40;

		if (!is_rex && !memchr(prefixes, byte, sizeof(prefixes)))
			break;
		rex = is_rex ? byte : 0; /* applies only directly before the opcode */
		insn->is_short |= byte == 0x66;
		insn->repeats |= byte == 0xf3;
	}
	set_rex(insn, rex);
}

/* C5, C4 or 62 is taken. R, X and B are stored inverted. */
static void take_vector_prefix(struct bytes *b, struct amd64_insn *insn, uint8_t kind)
{
	uint8_t first = take(b), inverted = ~first >> 5, second = kind == 0xc5 ? 0 : take(b);
	uint8_t map = kind == 0xc5 ? AMD64_0F : first & (kind == 0x62 ? 7 : 31);

	if (kind == 0xc5)
		inverted &= REX_R;
	if (kind == 0x62)
		take(b);
	set_rex(insn, inverted | (second & 0x80 ? REX_W : 0));
	insn->is_vector = true;
	insn->repeats = ((kind == 0xc5 ? first : second) & 3) == 2;
	insn->map = map && map < AMD64_OTHER_MAP ? map : AMD64_OTHER_MAP;
	insn->opcode = take(b);
}

static void take_opcode(struct bytes *b, struct amd64_insn *insn)
{
	uint8_t byte = take(b);

	if (byte == 0xc4 || byte == 0xc5 || byte == 0x62) {
		take_vector_prefix(b, insn, byte);
		return;
	}
	if (byte == 0x0f) {
		byte = take(b);
		insn->map = AMD64_0F;
		if (byte == 0x38 || byte == 0x3a) {
			insn->map = byte == 0x38 ? AMD64_0F38 : AMD64_0F3A;
			byte = take(b);
		}
	}
	insn->opcode = byte;
}

static void take_memory(struct bytes *b, struct amd64_insn *insn, uint8_t mod, uint8_t rm)
{
	uint8_t base = rm == 4 ? take(b) & 7 : rm;
	bool has_no_base = mod == 0 && base == 5;

	insn->is_memory = true;
	insn->base = base | (insn->rex & REX_B ? 8 : 0);
	if (has_no_base)
		insn->base = rm == 4 ? MODRM_NONE : MODRM_PC;
	if (mod == 1)
		insn->displacement = take_signed(b, 1);
	else if (mod == 2 || has_no_base)
		insn->displacement = take_signed(b, 4);
}

static void take_modrm(struct bytes *b, struct amd64_insn *insn)
{
	uint8_t byte = take(b), mod = byte >> 6, rm = byte & 7;

	insn->has_modrm = true;
	insn->reg = (byte >> 3 & 7) | (insn->rex & REX_R ? 8 : 0);
	if (mod != 3)
		take_memory(b, insn, mod, rm);
	else
		insn->rm = rm | (insn->rex & REX_B ? 8 : 0);
}

static char form_of(const struct amd64_insn *insn)
{
	switch (insn->map) {
	case AMD64_ONE_BYTE:
		return one_byte[insn->opcode];
	case AMD64_0F:
		return behind_0f[insn->opcode];
	case AMD64_0F3A:
		return 'b';
	default:
		return 'm';
	}
}

static void skip(struct bytes *b, size_t size)
{
	while (size--)
		take(b);
}

/* The bytes behind the opcode and ModRM. */
static void take_operand(struct bytes *b, struct amd64_insn *insn, char form)
{
	size_t operand = insn->is_short && !insn->is_wide ? 2 : 4;
	bool has_one = (insn->reg & 7) < 2;

	if (strchr("123", form))
		skip(b, form - '0');
	else if (form == 'b' || (form == 'B' && has_one))
		skip(b, 1);
	else if (form == '4' || form == 'z' || (form == 'Z' && has_one))
		skip(b, operand);
	else if (form == 'i')
		skip(b, insn->is_wide ? 8 : operand);
	else if (form == 'o')
		skip(b, 8);
	else if (form == 'r')
		insn->relative = take_signed(b, 4);
}

bool amd64_decode(const uint8_t *code, size_t size, struct amd64_insn *ret)
{
	struct bytes b = {code, size < 15 ? size : 15, false};
	char form;

	*ret = (struct amd64_insn){.base = MODRM_NONE};
	take_prefixes(&b, ret);
	take_opcode(&b, ret);
	form = form_of(ret);
	if (strchr("mbzBZ", form))
		take_modrm(&b, ret);
	take_operand(&b, ret, form);
	ret->length = b.at - code;
	return form != 'x' && !b.failed;
}

/* Groups and opcodes that write the operand ModRM.rm. */
static bool writes_rm(const struct amd64_insn *insn)
{
	uint8_t op = insn->opcode, group = insn->reg & 7;

	if (insn->map == AMD64_0F3A)
		return op >= 0x14 && op <= 0x17;
	if (insn->map == AMD64_0F && insn->is_vector)
		return op == 0x7e && !insn->repeats;
	if (insn->map == AMD64_0F)
		return (op == 0x7e && !insn->repeats) || (op == 0xba && group > 4) ||
		       (op == 0xc7 && group > 5) ||
		       (op && strchr("\xa4\xa5\xab\xac\xad\xb1\xb3\xbb\xc1", op));
	if (insn->map != AMD64_ONE_BYTE)
		return false;
	if (op < 0x38)
		return (op & 7) == 1;
	if (op == 0x81 || op == 0x83)
		return group != 7;
	if (op == 0xf7)
		return group == 2 || group == 3;
	return (op == 0xff && group < 2) || strchr("\x87\x89\x8f\xc1\xc7\xd1\xd3", op);
}

/* Likewise, of ModRM.reg. */
static bool writes_reg(const struct amd64_insn *insn)
{
	uint8_t op = insn->opcode;

	switch (insn->map) {
	case AMD64_ONE_BYTE:
		return op < 0x38 ? (op & 7) == 3 : strchr("\x63\x69\x6b\x8b\x8d", op) != NULL;
	case AMD64_0F:
		if (insn->is_vector)
			return op && strchr("\x2c\x2d\x50\x93\xc5\xd7", op);
		return (op & 0xf0) == 0x40 ||
		       (op &&
			strchr("\x02\x03\x2c\x2d\x50\xaf\xb6\xb7\xb8\xbc\xbd\xbe\xbf\xc5\xd7", op));
	case AMD64_0F38:
		return op >= 0xf0 && op <= 0xf7 && op != 0xf3;
	case AMD64_0F3A:
		return op == 0xf0 || (op >= 0x60 && op <= 0x63);
	default:
		return false;
	}
}

enum modrm_register amd64_written(const struct amd64_insn *insn)
{
	uint8_t in_opcode = (insn->opcode & 7) | (insn->rex & REX_B ? 8 : 0);
	uint8_t row = insn->opcode & 0xf8;

	if (insn->map == AMD64_ONE_BYTE && (row == 0x58 || row == 0xb8))
		return in_opcode;
	if (insn->map == AMD64_0F && !insn->is_vector && row == 0xc8)
		return in_opcode;
	if (!insn->has_modrm)
		return MODRM_NONE;
	if (writes_reg(insn))
		return insn->reg;
	return writes_rm(insn) && !insn->is_memory ? insn->rm : MODRM_NONE;
}

static bool is_one_byte(const struct amd64_insn *insn, uint8_t opcode)
{
	return insn->map == AMD64_ONE_BYTE && insn->opcode == opcode;
}

bool amd64_is_call(const struct amd64_insn *insn)
{
	return is_one_byte(insn, 0xe8);
}

bool amd64_is_jump(const struct amd64_insn *insn)
{
	return is_one_byte(insn, 0xc2) || is_one_byte(insn, 0xc3) || is_one_byte(insn, 0xe9) ||
	       is_one_byte(insn, 0xeb) || (is_one_byte(insn, 0xff) && (insn->reg & 7) == 4) ||
	       (insn->map == AMD64_0F && !insn->is_vector && insn->opcode == 0x0b);
}

bool amd64_is_lea(const struct amd64_insn *insn)
{
	return is_one_byte(insn, 0x8d) && insn->is_memory;
}

bool amd64_is_pop(const struct amd64_insn *insn)
{
	return is_one_byte(insn, 0x8f) ||
	       (insn->map == AMD64_ONE_BYTE && (insn->opcode & 0xf8) == 0x58);
}

bool amd64_is_load(const struct amd64_insn *insn)
{
	return is_one_byte(insn, 0x8b) && insn->is_memory;
}

bool amd64_is_copy_of(const struct amd64_insn *insn, enum modrm_register from)
{
	return !insn->is_memory && ((is_one_byte(insn, 0x8b) && insn->rm == from) ||
				    (is_one_byte(insn, 0x89) && insn->reg == from));
}
