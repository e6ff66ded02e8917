#include <elf.h>
#include <signal.h>
#include <string.h>

#include "fuzz.h"
#include "made_program.h"
#include "tests/made_functions.h"

static void add_note(struct strbuf *sb, uint32_t type, const void *desc, uint32_t size)
{
	uint32_t header[3] = {5, size, type};

	strbuf_add(sb, header, sizeof(header));
	strbuf_add(sb, "CORE\0\0\0", 8);
	strbuf_add(sb, desc, size);
	while (sb->length % 4)
		strbuf_addc(sb, 0);
}

static void add_thread(struct strbuf *sb, enum machine machine, int32_t id, uint64_t pc,
		       uint64_t sp)
{
	uint64_t status[48] = {0}, *registers = status + 14;

	((uint16_t *)status)[6] = SIGABRT;
	((int32_t *)status)[8] = id;
	registers[machine == MACHINE_AMD64 ? 16 : 32] = pc;
	registers[machine == MACHINE_AMD64 ? 19 : 31] = sp;
	add_note(sb, NT_PRSTATUS, status, sizeof(status));
}

static void add_notes(const struct made_program *p, struct strbuf *sb)
{
	static const char name[] = "/made/program";
	uint64_t mapped[2 + 3 + 2] = {1, 4096, MADE_TEXT, MADE_TEXT + 0x1000, 0};
	uint64_t auxv[] = {AT_ENTRY, MADE_TEXT, AT_EXECFN, PROGRAM_DATA, AT_NULL, 0};
	uint8_t info[136] = {[24] = 99, [40] = 'm'};
	int32_t signal[32] = {SIGABRT, 0, -6, 0, 99};

	memcpy(mapped + 5, name, sizeof(name));
	add_thread(sb, p->machine, PROGRAM_THREAD, p->running_pc, p->running_sp);
	add_note(sb, NT_PRPSINFO, info, sizeof(info));
	add_note(sb, NT_SIGINFO, signal, sizeof(signal));
	add_note(sb, NT_AUXV, auxv, sizeof(auxv));
	add_note(sb, NT_FILE, mapped, sizeof(mapped));
	add_thread(sb, p->machine, PROGRAM_THREAD - 1, MADE_TEXT, PROGRAM_HEAP);
}

void made_program_core(const struct made_program *p, struct strbuf *ret)
{
	Elf64_Ehdr h = {.e_ident = ELFMAG "\2\1\1",
			.e_type = ET_CORE,
			.e_machine = p->machine == MACHINE_AMD64 ? EM_X86_64 : EM_AARCH64,
			.e_phoff = sizeof(h),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 3};
	Elf64_Phdr s[3] = {
		{.p_type = PT_NOTE, .p_offset = sizeof(h) + sizeof(s)},
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = PROGRAM_DATA},
		{.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = PROGRAM_HEAP},
	};
	size_t start = ret->length;

	strbuf_add(ret, &h, sizeof(h));
	strbuf_add(ret, s, sizeof(s));
	add_notes(p, ret);
	s[0].p_filesz = ret->length - start - s[0].p_offset;
	while (ret->length % 8)
		strbuf_addc(ret, 0);
	s[1].p_offset = ret->length - start;
	s[1].p_filesz = s[1].p_memsz = sizeof(p->data);
	strbuf_add(ret, p->data, sizeof(p->data));
	s[2].p_offset = ret->length - start;
	s[2].p_filesz = s[2].p_memsz = sizeof(p->heap);
	strbuf_add(ret, p->heap, sizeof(p->heap));
	fuzz_require(!ret->failed);
	memcpy(ret->data + start + sizeof(h), s, sizeof(s));
}
