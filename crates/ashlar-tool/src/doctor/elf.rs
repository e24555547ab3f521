//! What the file of a program says about its malloc. Nothing in the file is trusted.

use object::LittleEndian;
use object::elf::{FileHeader64, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

/// What was found in an ELF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// The dynamic linker; empty in a static program.
    pub(super) interpreter: String,
    /// Whether it defines `malloc`.
    pub(super) own_malloc: bool,
    /// Allocators that are linked into it, by the names of their functions.
    pub(super) allocators: Vec<&'static str>,
    /// Whether the Go linker made it.
    pub(super) go: bool,
}

/// Functions by which allocators are known.
const KNOWN: [(&str, &str); 9] = [
    ("je_malloc", "jemalloc"),
    ("_rjem_malloc", "jemalloc"),
    ("mallocx", "jemalloc"),
    ("tc_malloc", "tcmalloc"),
    ("mi_malloc", "mimalloc"),
    ("rpmalloc", "rpmalloc"),
    ("sn_malloc", "snmalloc"),
    ("scudo_malloc", "scudo"),
    ("hoard_malloc", "hoard"),
];

/// The most symbols that are looked at.
const MOST: usize = 4 << 20;

type Header = FileHeader64<LittleEndian>;

/// Reads an ELF file of 64 bits; `None` if it is none.
pub(super) fn read(bytes: &[u8]) -> Option<Program> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let mut program = Program::default();
    for part in header.program_headers(endian, bytes).ok()? {
        if let Ok(Some(name)) = part.interpreter(endian, bytes) {
            program.interpreter = String::from_utf8_lossy(name).into_owned();
        }
    }
    // A file without section headers is stripped of them, which says nothing.
    let _ = sections(header, endian, bytes, &mut program);
    program.allocators.sort_unstable();
    program.allocators.dedup();
    Some(program)
}

fn sections(header: &Header, endian: LittleEndian, bytes: &[u8], program: &mut Program) -> object::read::Result<()> {
    let sections = header.sections(endian, bytes)?;
    program.go = sections.section_by_name(endian, b".go.buildinfo").is_some();
    for (number, section) in sections.enumerate() {
        if ![SHT_SYMTAB, SHT_DYNSYM].contains(&section.sh_type(endian)) {
            continue;
        }
        let Some(symbols) = section.symbols(endian, bytes, &sections, number)? else { continue };
        for symbol in symbols.iter().take(MOST) {
            if symbol.is_undefined(endian) || symbol.st_type() != STT_FUNC {
                continue;
            }
            let name = symbol.name(endian, symbols.strings()).unwrap_or_default();
            program.own_malloc |= name == b"malloc";
            let known = KNOWN.iter().filter(|(function, _)| function.as_bytes() == name);
            program.allocators.extend(known.map(|(_, library)| *library));
        }
    }
    Ok(())
}
