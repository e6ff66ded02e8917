/*
 * For the static command alone: p11-kit leads GnuTLS to smart cards and to tokens of PKCS#11, by
 * loading libraries, which a static program cannot. There is no static p11-kit. These functions say
 * that there is no such module; then GnuTLS never gets to the others. Keys and certificates are
 * given as PEM here.
 *
 * The prototypes are p11-kit's own in name only: each takes what it is given and returns NULL or 0.
 */
#define WITHOUT(name)     \
	void *name(void); \
	void *name(void)  \
	{                 \
		return 0; \
	}

WITHOUT(p11_kit_modules_load)
WITHOUT(p11_kit_module_load)
WITHOUT(p11_kit_uri_new)
WITHOUT(p11_kit_config_option)
WITHOUT(p11_kit_message)
WITHOUT(p11_kit_module_finalize)
WITHOUT(p11_kit_module_get_flags)
WITHOUT(p11_kit_module_get_name)
WITHOUT(p11_kit_module_release)
WITHOUT(p11_kit_pin_file_callback)
WITHOUT(p11_kit_pin_get_length)
WITHOUT(p11_kit_pin_get_value)
WITHOUT(p11_kit_pin_new_for_string)
WITHOUT(p11_kit_pin_register_callback)
WITHOUT(p11_kit_pin_request)
WITHOUT(p11_kit_pin_unref)
WITHOUT(p11_kit_pin_unregister_callback)
WITHOUT(p11_kit_space_strdup)
WITHOUT(p11_kit_space_strlen)
WITHOUT(p11_kit_strerror)
WITHOUT(p11_kit_uri_format)
WITHOUT(p11_kit_uri_free)
WITHOUT(p11_kit_uri_get_attribute)
WITHOUT(p11_kit_uri_get_attributes)
WITHOUT(p11_kit_uri_get_module_info)
WITHOUT(p11_kit_uri_get_pin_source)
WITHOUT(p11_kit_uri_get_pin_value)
WITHOUT(p11_kit_uri_get_token_info)
WITHOUT(p11_kit_uri_match_module_info)
WITHOUT(p11_kit_uri_match_token_info)
WITHOUT(p11_kit_uri_parse)
WITHOUT(p11_kit_uri_set_attribute)
