//! What the file of a program says about its malloc. Nothing in the file is trusted.

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

const SYMTAB: u64 = 2;
const DYNSYM: u64 = 11;
const PT_INTERP: u64 = 3;
const SYMBOL_BYTES: usize = 24;
/// The most symbols that are looked at.
const MOST: usize = 4 << 20;

struct File<'a>(&'a [u8]);

impl File<'_> {
    fn number(&self, at: usize, bytes: usize) -> Option<u64> {
        let field = self.0.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte)))
    }

    fn size(&self, at: usize, bytes: usize) -> Option<usize> {
        usize::try_from(self.number(at, bytes)?).ok()
    }

    /// Returns the text at an offset, up to its zero byte.
    fn text(&self, at: usize, most: usize) -> Option<&str> {
        let bytes = self.0.get(at..)?;
        let len = bytes.iter().take(most).position(|&byte| byte == 0)?;
        core::str::from_utf8(&bytes[..len]).ok()
    }
}

/// Reads an ELF file of 64 bits; `None` if it is none.
pub(super) fn read(bytes: &[u8]) -> Option<Program> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let file = File(bytes);
    let mut program = Program::default();
    let (start, size, count) = (file.size(32, 8)?, file.size(54, 2)?, file.size(56, 2)?);
    for number in 0..count {
        let at = start.checked_add(number.checked_mul(size)?)?;
        if file.number(at, 4) == Some(PT_INTERP) {
            program.interpreter = file.text(file.size(at.checked_add(8)?, 8)?, 4096).unwrap_or("?").to_owned();
        }
    }
    // A file without section headers is stripped of them, which says nothing.
    let _ = sections(&file, &mut program);
    program.allocators.sort_unstable();
    program.allocators.dedup();
    Some(program)
}

fn sections(file: &File<'_>, program: &mut Program) -> Option<()> {
    let (start, size, count, names) = (file.size(40, 8)?, file.size(58, 2)?, file.size(60, 2)?, file.size(62, 2)?);
    let header = |number: usize| start.checked_add(number.checked_mul(size)?);
    let names = file.size(header(names)?.checked_add(24)?, 8)?;
    for number in 0..count {
        let at = header(number)?;
        let name = names.checked_add(file.size(at, 4)?)?;
        program.go |= file.text(name, 64) == Some(".go.buildinfo");
        if [Some(SYMTAB), Some(DYNSYM)].contains(&file.number(at.checked_add(4)?, 4)) {
            let strings = header(file.size(at.checked_add(40)?, 4)?)?;
            let strings = file.size(strings.checked_add(24)?, 8)?;
            symbols(file, file.size(at.checked_add(24)?, 8)?, file.size(at.checked_add(32)?, 8)?, strings, program);
        }
    }
    Some(())
}

fn symbols(file: &File<'_>, start: usize, bytes: usize, strings: usize, program: &mut Program) -> Option<()> {
    for number in 0..(bytes / SYMBOL_BYTES).min(MOST) {
        let at = start.checked_add(number * SYMBOL_BYTES)?;
        let defined = file.number(at.checked_add(6)?, 2)? != 0;
        let is_function = file.number(at.checked_add(4)?, 1)? & 15 == 2;
        if !defined || !is_function {
            continue;
        }
        let name = file.text(strings.checked_add(file.size(at, 4)?)?, 32).unwrap_or_default();
        program.own_malloc |= name == "malloc";
        program.allocators.extend(KNOWN.iter().filter(|(function, _)| *function == name).map(|(_, library)| *library));
    }
    Some(())
}
