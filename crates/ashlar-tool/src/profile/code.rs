//! The code in a file: functions and lines at an address, from symbols and debugging information.
//!
//! Distributions ship that information in files of their own. They are found by the build
//! identifier or by the name in the file, where debuggers look for them, and so is the file with
//! what several of them share. Nothing in a file is trusted.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, Reader};
use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use flate2::read::ZlibDecoder;
use memmap2::Mmap;
use object::elf::PT_LOAD;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::read::{CompressionFormat, Object, ObjectSection, SymbolMap, SymbolMapName};

type Bytes = EndianSlice<'static, LittleEndian>;
type Elf = ElfFile64<'static, object::LittleEndian>;

/// Where files with debugging information lie.
const DEBUG: &str = "/usr/lib/debug";

/// A function at an address; several where functions were compiled into others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Frame {
    pub(crate) function: String,
    /// File and line of the call; empty and 0 without debug information.
    pub(crate) file: String,
    pub(crate) line: u32,
}

impl Frame {
    /// Makes one from what a file says.
    fn new(function: &str, file: &str, line: u32) -> Frame {
        Frame { function: clean(function), file: clean(file), line }
    }
}

/// The code in a file. Its bytes stay mapped until the tool ends.
pub(super) struct Code {
    parts: Vec<Part>,
    lines: Option<Context<Bytes>>,
    names: Vec<SymbolMap<SymbolMapName<'static>>>,
}

/// A part of the file that is loaded.
struct Part {
    /// Where it begins in the file.
    offset: u64,
    len: u64,
    /// Its address by the file.
    address: u64,
}

impl Code {
    /// Opens an ELF file of 64 bits; `None` if there is none at `path`.
    pub(super) fn open(path: &Path) -> Option<Code> {
        let elf = mapped(path)?;
        let parts = loaded(&elf);
        let debug = if has_lines(&elf) { None } else { separate(&elf, path) };
        let mut names = vec![elf.symbol_map()];
        names.extend(debug.as_ref().map(|(elf, _)| elf.symbol_map()));
        let lines = match &debug {
            Some((debug, at)) => context(debug, at),
            None => context(&elf, path),
        };
        Some(Code { parts, lines, names })
    }

    /// Returns the functions at a place in the file, the innermost first.
    pub(super) fn frames(&self, in_file: u64) -> Vec<Frame> {
        let Some(address) = self.address(in_file) else { return Vec::new() };
        let frames = self.inlined(address);
        if !frames.is_empty() {
            return frames;
        }
        let symbol = self.names.iter().find_map(|names| names.containing(address));
        let name = symbol.map(|symbol| addr2line::demangle_auto(symbol.name().into(), None));
        name.iter().map(|name| Frame::new(name, "", 0)).collect()
    }

    /// Returns the address by the file of a place in it.
    fn address(&self, in_file: u64) -> Option<u64> {
        let part = self.parts.iter().find(|part| in_file.checked_sub(part.offset).is_some_and(|at| at < part.len))?;
        Some(part.address.wrapping_add(in_file - part.offset))
    }

    /// Returns what debugging information says of an address, with functions that were compiled
    /// into others.
    fn inlined(&self, address: u64) -> Vec<Frame> {
        let Some(lines) = &self.lines else { return Vec::new() };
        let mut found = lines.find_frames(address);
        let found = loop {
            found = match found {
                LookupResult::Output(found) => break found,
                LookupResult::Load { load, continuation } => continuation.resume(split(&load)),
            };
        };
        let mut frames = Vec::new();
        let Ok(mut found) = found else { return frames };
        while let Ok(Some(frame)) = found.next() {
            let Some(name) = frame.function else { continue };
            let name = name.demangle().map_or_else(|_| String::from("?"), |name| name.into_owned());
            let (file, line) = frame.location.map_or(("", 0), |at| (at.file.unwrap_or(""), at.line.unwrap_or(0)));
            frames.push(Frame::new(&name, file, line));
        }
        frames
    }
}

/// A name of a file that may be anybody's, for one line on a terminal.
fn clean(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(1000).collect()
}

/// Maps a file until the tool ends.
#[expect(unsafe_code, reason = "the mapping of a file")]
fn mapped(path: &Path) -> Option<Elf> {
    let file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    // SAFETY: the mapping is private and only read. If the file is cut short meanwhile, a signal
    // ends the tool, which does no other harm.
    let map: &'static Mmap = Box::leak(Box::new(unsafe { Mmap::map(&file) }.ok()?));
    Elf::parse(map).ok()
}

/// Returns which parts of a file are loaded.
fn loaded(elf: &Elf) -> Vec<Part> {
    let endian = elf.endian();
    let parts = elf.elf_program_headers().iter().filter(|part| part.p_type(endian) == PT_LOAD);
    let part = |part: &object::elf::ProgramHeader64<object::LittleEndian>| Part {
        offset: part.p_offset(endian),
        len: part.p_filesz(endian),
        address: part.p_vaddr(endian),
    };
    parts.map(part).collect()
}

fn has_lines(elf: &Elf) -> bool {
    elf.section_by_name(".debug_info").is_some()
}

/// Finds the file with the debugging information of another.
fn separate(elf: &Elf, path: &Path) -> Option<(Elf, PathBuf)> {
    let id = elf.build_id().ok().flatten();
    let by_id = id.and_then(by_build_id);
    let folder = path.parent()?;
    let by_name = elf.gnu_debuglink().ok().flatten().map(|(name, _)| Path::new(OsStr::from_bytes(name)));
    let beside = by_name.into_iter().flat_map(|name| {
        let below = folder.strip_prefix("/").unwrap_or(folder);
        [folder.join(name), folder.join(".debug").join(name), Path::new(DEBUG).join(below).join(name)]
    });
    by_id.into_iter().chain(beside).find_map(|at| {
        let debug = mapped(&at).filter(has_lines)?;
        // Another build of the same name would give wrong lines.
        let same = id.is_none() || debug.build_id().ok().flatten() == id;
        same.then_some((debug, at))
    })
}

/// Returns where the file with the debugging information of a build lies.
fn by_build_id(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(Path::new(DEBUG).join(format!(".build-id/{first:02x}/{rest}.debug")))
}

fn context(elf: &Elf, path: &Path) -> Option<Context<Bytes>> {
    let mut dwarf = sections(elf, |id| Some(id.name()))?;
    if let Some(shared) = shared(elf, path) {
        dwarf.load_sup(|id| Ok::<_, addr2line::gimli::Error>(section(&shared, Some(id.name())))).ok()?;
    }
    Context::from_dwarf(dwarf).ok()
}

/// Finds the file with what several files of debugging information share.
fn shared(elf: &Elf, path: &Path) -> Option<Elf> {
    let (name, id) = elf.gnu_debugaltlink().ok().flatten()?;
    // The name counts from where the file really is, past the links of build identifiers.
    let folder = path.canonicalize().ok()?.parent()?.to_path_buf();
    let shared = mapped(&folder.join(OsStr::from_bytes(name))).or_else(|| mapped(&by_build_id(id)?))?;
    (shared.build_id().ok().flatten() == Some(id)).then_some(shared)
}

/// Loads what was split off a unit when it was compiled.
fn split(load: &SplitDwarfLoad<Bytes>) -> Option<Arc<Dwarf<Bytes>>> {
    let text = |bytes: &Bytes| bytes.to_slice().ok().map(|bytes| PathBuf::from(OsStr::from_bytes(&bytes)));
    let folder = load.comp_dir.as_ref().and_then(text).unwrap_or_default();
    let elf = mapped(&folder.join(text(load.path.as_ref()?)?))?;
    let mut dwarf = sections(&elf, |id| id.dwo_name())?;
    let header = dwarf.units().next().ok()??;
    let unit = dwarf.unit(header).ok()?;
    if unit.dwo_id != Some(load.dwo_id) {
        return None;
    }
    dwarf.make_dwo(&load.parent);
    Some(Arc::new(dwarf))
}

fn sections(elf: &Elf, name: impl Fn(addr2line::gimli::SectionId) -> Option<&'static str>) -> Option<Dwarf<Bytes>> {
    let mut dwarf = Dwarf::load(|id| Ok::<_, addr2line::gimli::Error>(section(elf, name(id)))).ok()?;
    dwarf.populate_abbreviations_cache(addr2line::gimli::AbbreviationsCacheStrategy::Duplicates);
    Some(dwarf)
}

/// Returns the bytes of a section; none if it is not there, or compressed in a way that is not read
/// here (zstd).
fn section(elf: &Elf, name: Option<&str>) -> Bytes {
    let found = name.and_then(|name| elf.section_by_name(name)).and_then(|section| section.compressed_data().ok());
    let bytes: &'static [u8] = match found {
        Some(data) if data.format == CompressionFormat::None => data.data,
        Some(data) if data.format == CompressionFormat::Zlib => {
            let mut bytes = Vec::new();
            let read = ZlibDecoder::new(data.data).take(data.uncompressed_size).read_to_end(&mut bytes);
            if read.is_ok() { Vec::leak(bytes) } else { &[] }
        }
        _ => &[],
    };
    EndianSlice::new(bytes, LittleEndian)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const SOURCE: &str = "int n;\n\
        static inline __attribute__((always_inline)) int inner(int x) {\n\
        n += x; return n; }\n\
        int outer(int x) {\n\
        return inner(x) + 1; }\n\
        int main(void) { return outer(1); }\n";

    /// A folder of its own with a compiled program; removed at the end.
    struct Program(PathBuf);

    impl Program {
        fn new(name: &str, options: &[&str]) -> Program {
            let folder = std::env::temp_dir().join(format!("ashlar-code-{}-{name}", std::process::id()));
            std::fs::create_dir_all(folder.join(".debug")).expect("a folder");
            std::fs::write(folder.join("p.c"), SOURCE).expect("a source");
            let program = Program(folder);
            program.runs("cc", &[&["-O1", "-o", "p", "p.c"], options].concat());
            program
        }

        fn runs(&self, command: &str, args: &[&str]) {
            let status = Command::new(command).args(args).current_dir(&self.0).status().expect(command);
            assert!(status.success(), "{command} {args:?}");
        }

        fn path(&self) -> PathBuf {
            self.0.join("p")
        }

        /// The functions and lines at the start of `outer`'s sum, and one byte on.
        fn frames(&self) -> Vec<(String, u32)> {
            let code = Code::open(&self.path()).expect("an ELF file");
            let elf = mapped(&self.path()).expect("an ELF file");
            let outer = symbols_of(&elf).or_else(|| symbols_of(&separate(&elf, &self.path())?.0)).expect("outer");
            let part = code.parts.iter().find(|part| outer.wrapping_sub(part.address) < part.len).expect("a part");
            let frames = code.frames(outer - part.address + part.offset);
            frames.into_iter().map(|frame| (frame.function, frame.line)).collect()
        }
    }

    fn symbols_of(elf: &Elf) -> Option<u64> {
        let map = elf.symbol_map();
        map.symbols().iter().find(|symbol| symbol.name() == "outer").map(|symbol| symbol.address())
    }

    impl Drop for Program {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn is_inner_in_outer(frames: &[(String, u32)]) -> bool {
        let [.., (outer, line)] = frames else { return false };
        outer == "outer" && (4..=5).contains(line) && frames.iter().all(|(name, _)| name == "inner" || name == "outer")
    }

    #[test]
    fn lines_are_found_in_the_file_compressed_or_split_off() {
        for options in [&["-g"][..], &["-g", "-gz=zlib"], &["-g", "-gsplit-dwarf"], &["-gdwarf-4"]] {
            let frames = Program::new("lines", options).frames();
            assert!(is_inner_in_outer(&frames), "{options:?}: {frames:?}");
        }
    }

    #[test]
    fn lines_are_found_in_a_file_of_their_own_but_not_in_that_of_another_build() {
        let program = Program::new("apart", &["-g", "-Wl,--build-id=sha1"]);
        program.runs("objcopy", &["--only-keep-debug", "p", ".debug/p.debug"]);
        program.runs("strip", &["p"]);
        program.runs("objcopy", &["--add-gnu-debuglink=.debug/p.debug", "p"]);
        assert!(is_inner_in_outer(&program.frames()), "{:?}", program.frames());
        program.runs("cc", &["-g", "-O0", "-Wl,--build-id=sha1", "-o", "q", "p.c"]);
        program.runs("objcopy", &["--only-keep-debug", "q", ".debug/p.debug"]);
        let elf = mapped(&program.path()).expect("an ELF file");
        assert!(separate(&elf, &program.path()).is_none(), "another build");
    }

    #[test]
    fn without_lines_there_are_names() {
        assert_eq!(Program::new("names", &[]).frames(), [("outer".to_owned(), 0)]);
    }

    #[test]
    fn damaged_files_do_no_harm() {
        let program = Program::new("damaged", &["-g"]);
        let whole = std::fs::read(program.path()).expect("a file");
        let at = program.0.join("d");
        let mut random = 1_u64;
        for _ in 0..300 {
            let mut damaged = whole.clone();
            for _ in 0..8 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let place = usize::try_from(random >> 33).unwrap_or(0) % damaged.len();
                damaged[place] = (random >> 24) as u8;
            }
            std::fs::write(&at, &damaged).expect("a file");
            if let Some(code) = Code::open(&at) {
                (0..damaged.len() as u64).step_by(64).for_each(|place| drop(code.frames(place)));
            }
        }
        assert!(Code::open(&program.0).is_none() && Code::open(Path::new("/dev/null")).is_none());
    }
}
