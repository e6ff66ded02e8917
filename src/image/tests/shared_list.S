/*
 * DWARF in which each of many functions has the same long list of ranges, none of which holds any
 * address that is asked for: a file of 1 MB with 1.6 billion ranges to check.
 */
#define COUNT 40000

	.section .note.GNU-stack,"",%progbits

	.section .debug_abbrev,"",%progbits
	/* a unit: low_pc, ranges */
	.uleb128 1, 0x11
	.byte 1
	.uleb128 0x11, 0x01
	.uleb128 0x55, 0x17
	.byte 0, 0
	/* a function: ranges */
	.uleb128 2, 0x2e
	.byte 0
	.uleb128 0x55, 0x17
	.byte 0, 0
	.byte 0

	.section .debug_info,"",%progbits
	.long end - begin
begin:	.short 4
	.long 0
	.byte 8
	.uleb128 1
	.quad 0
	.long unit
	.rept COUNT
	.uleb128 2
	.long list
	.endr
	.byte 0
end:

	.section .debug_ranges,"",%progbits
	.set unit, 0
	.quad 0x1000, 0x2000
	.quad 0, 0
	.set list, 32
	.rept COUNT
	.quad 1, 2
	.endr
	.quad 0, 0
