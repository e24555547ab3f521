//! What is compared: the system's malloc, ashlar, and shared libraries of others that are found or
//! named.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use clap::ValueEnum;
use serde::Serialize;

use crate::error::ToolError;
use crate::{host, library, preload};

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Malloc {
    pub(super) id: String,
    /// What is preloaded; none for the system's malloc.
    pub(super) preload: Option<PathBuf>,
    pub(super) version: String,
    /// The value of `ASHLAR_OPTIONS`, for ashlar.
    pub(super) options: Option<String>,
}

/// The first row, which the ratios are to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Base {
    /// The malloc that programs have if nothing is preloaded
    System,
    /// Ashlar without the options of `--option`
    Ashlar,
}

const SYSTEM: &str = "system";
const ASHLAR: &str = "ashlar";
/// The row of ashlar with options, where one without is the base.
const WITH_OPTIONS: &str = "with options";
/// Longest name of a row.
const LONGEST: usize = 13;

/// The peers, each with the names of its library without `lib` and `.so`, the best first.
const PEERS: [(&str, &[&str]); 5] = [
    ("mimalloc", &["mimalloc"]),
    ("jemalloc", &["jemalloc"]),
    ("tcmalloc", &["tcmalloc", "tcmalloc_minimal"]),
    ("snmalloc", &["snmalloc", "snmallocshim"]),
    ("rpmalloc", &["rpmalloc", "rpmallocwrap"]),
];

impl Malloc {
    /// Returns what the malloc is called within a sentence.
    pub(super) fn in_words(&self) -> &str {
        if self.id == SYSTEM { "the system's malloc" } else { &self.id }
    }
}

/// Returns the rows: the base, ashlar, and those of `with`; and notes about peers that are not
/// here.
pub(super) fn select(base: Base, with: &[String], options: &str) -> Result<(Vec<Malloc>, Vec<String>), ToolError> {
    if base == Base::Ashlar && options.is_empty() {
        return Err(ToolError::option("--base", "ashlar: expected --option KEY=VALUE with it"));
    }
    let ours = library::find()?;
    preload::list(&ours)?;
    let system = Malloc { id: SYSTEM.to_owned(), preload: None, version: host::c_library(), options: None };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let options = (!options.is_empty()).then(|| options.to_owned());
    let ashlar = |id: &str, options| Malloc {
        id: id.to_owned(),
        preload: Some(ours.clone()),
        version: version.clone(),
        options,
    };
    let mut rows = match base {
        Base::System => vec![system, ashlar(ASHLAR, options)],
        Base::Ashlar => vec![ashlar(ASHLAR, None), ashlar(WITH_OPTIONS, options)],
    };
    let mut notes = Vec::new();
    let places = places();
    for word in with {
        if word == "all" {
            let (found, missing): (Vec<_>, Vec<_>) =
                PEERS.iter().map(|peer| (peer.0, peer_in(peer, &places))).partition(|p| p.1.is_some());
            rows.extend(found.into_iter().filter_map(|(id, path)| Some(peer(id, path?))));
            if !missing.is_empty() {
                let names: Vec<&str> = missing.iter().map(|(id, _)| *id).collect();
                notes.push(format!("--with all: not found here: {}", names.join(", ")));
            }
        } else if word.contains('/') {
            rows.push(named_by_path(word)?);
        } else {
            let known = PEERS.iter().find(|peer| peer.0 == word);
            let path =
                known.and_then(|peer| peer_in(peer, &places)).ok_or_else(|| unknown(word, known.is_some(), &places))?;
            rows.push(peer(word, path));
        }
    }
    let mut distinct: Vec<Malloc> = Vec::new();
    for mut row in rows {
        let same =
            |other: &Malloc| other.preload == row.preload && (other.options == row.options || row.options.is_none());
        if distinct.iter().any(same) {
            continue;
        }
        if let Some(library) = &row.preload {
            preload::list(library).map_err(|error| ToolError::option("--with", error))?;
        }
        row.id = unused_id(&row.id, &distinct);
        distinct.push(row);
    }
    Ok((distinct, notes))
}

/// Returns the name of a row, short enough, and different from those of other rows.
fn unused_id(id: &str, rows: &[Malloc]) -> String {
    let cut = |most: usize| id.chars().take(most).collect::<String>();
    let names = core::iter::once(cut(LONGEST)).chain((2..).map(|number| {
        let end = format!("#{number}");
        cut(LONGEST - end.len()) + &end
    }));
    names.into_iter().find(|name| rows.iter().all(|row| row.id != *name)).unwrap_or_default()
}

/// The error about a word of `--with` that stands for no library.
fn unknown(word: &str, is_peer: bool, places: &[PathBuf]) -> ToolError {
    let found: Vec<&str> = PEERS.iter().filter(|peer| peer_in(peer, places).is_some()).map(|peer| peer.0).collect();
    let found = if found.is_empty() { "none of them".to_owned() } else { found.join(", ") };
    let names = PEERS.map(|peer| peer.0).join(", ");
    let places = places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ");
    let what = match word {
        SYSTEM | ASHLAR => format!("\"{word}\" is compared anyway"),
        _ if is_peer => format!("no library of \"{word}\""),
        _ => format!("unknown malloc \"{word}\""),
    };
    ToolError::option(
        "--with",
        format_args!(
            "{what}, expected all, {names}, or the path of a shared library; found here: {found}; looked in {places}"
        ),
    )
}

fn named_by_path(word: &str) -> Result<Malloc, ToolError> {
    let bad = |why: &str| ToolError::option("--with", format_args!("{word}: {why}, expected a shared library"));
    let path = fs::canonicalize(word).map_err(|error| bad(&error.to_string()))?;
    let start = fs::read(&path).map_err(|error| bad(&error.to_string()))?;
    // ELF, and of the kind ET_DYN in the byte order of this machine.
    if !start.starts_with(b"\x7fELF") || start.get(16..18) != Some(&3_u16.to_ne_bytes()) {
        return Err(bad("not a shared library"));
    }
    let name = Path::new(word).file_name().map_or_else(|| word.into(), OsStr::to_string_lossy);
    let stem = name.split(".so").next().unwrap_or(&name);
    Ok(peer(stem.strip_prefix("lib").unwrap_or(stem), path))
}

fn peer(id: &str, library: PathBuf) -> Malloc {
    let version = version(&library);
    Malloc { id: id.to_owned(), preload: Some(library), version, options: None }
}

/// Returns the directories that may hold peers: where the lab's script builds them, then those of
/// the system.
fn places() -> Vec<PathBuf> {
    let built = env::current_exe().ok().and_then(|tool| Some(tool.parent()?.parent()?.join("peers")));
    let target = env::var_os("CARGO_TARGET_DIR").map(|target| Path::new(&target).join("peers"));
    let multiarch = format!("{}-linux-gnu", env::consts::ARCH);
    let system = [format!("/usr/local/lib/{multiarch}"), "/usr/local/lib".to_owned(), "/usr/local/lib64".to_owned()];
    let packaged = [format!("/usr/lib/{multiarch}"), "/usr/lib64".to_owned(), "/usr/lib".to_owned()];
    let system = system.into_iter().chain(packaged).map(PathBuf::from);
    let mut places: Vec<PathBuf> =
        built.into_iter().chain(target).chain(system).filter(|place| place.is_dir()).collect();
    let mut seen = Vec::new();
    places.retain(|place| {
        let real = fs::canonicalize(place).ok();
        let new = !seen.contains(&real);
        seen.push(real);
        new
    });
    places
}

/// Returns the library of a peer: in the first place that has one, by its best name, the newest.
fn peer_in((_, names): &(&str, &[&str]), places: &[PathBuf]) -> Option<PathBuf> {
    places.iter().find_map(|place| names.iter().find_map(|name| newest(place, name)))
}

/// Returns the file `libNAME.so`, or that with the highest numbers behind it.
fn newest(place: &Path, name: &str) -> Option<PathBuf> {
    let plain = format!("lib{name}.so");
    let numbers = |path: &PathBuf| -> Option<Vec<u64>> {
        let rest = path.file_name()?.to_str()?.strip_prefix(&plain)?;
        // The file without numbers is the one that was chosen to be linked with.
        let Some(rest) = rest.strip_prefix('.') else { return rest.is_empty().then(|| vec![u64::MAX]) };
        rest.split('.').map(|part| part.parse().ok()).collect()
    };
    let files = fs::read_dir(place).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let found = files.filter_map(|path| Some((numbers(&path)?, path))).filter(|(_, path)| path.is_file());
    found.max().map(|(_, path)| path)
}

/// Returns what is known of the version: of the lab's builds, of Debian's packages, else the name
/// of the file itself.
fn version(library: &Path) -> String {
    let built = fs::read_to_string(library.with_extension("version")).ok();
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let real = || name(&fs::canonicalize(library).ok()?);
    let text = built.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    text.or_else(|| packaged(library)).or_else(real).unwrap_or_else(|| "unknown".to_owned())
}

fn packaged(library: &Path) -> Option<String> {
    let ask = |args: &[&OsStr]| {
        let out = Command::new("dpkg-query").args(args).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let owner = ask(&["-S".as_ref(), library.as_os_str()])?;
    let package = owner.split(": ").next()?;
    ask(&["-W".as_ref(), "-f".as_ref(), "${Package} ${Version}".as_ref(), package.as_ref()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(name: &str, files: &[&str]) -> PathBuf {
        let dir = env::temp_dir().join(format!("ashlar-tool-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for file in files {
            fs::write(dir.join(file), "").unwrap();
        }
        dir
    }

    #[test]
    fn a_peer_is_found_by_its_best_name_and_newest_version() {
        let files = ["libtcmalloc_minimal.so.4", "libmimalloc.so.2", "libmimalloc.so.10", "libmimalloc-debug.so.11"];
        let (first, second) =
            (dir("first", &files), dir("second", &["libtcmalloc.so.4", "libjemalloc.so", "libjemalloc.so.2"]));
        let places = [first.clone(), second.clone()];
        let found = |at: usize| peer_in(&PEERS[at], &places);
        assert_eq!(found(0), Some(first.join("libmimalloc.so.10")));
        assert_eq!(found(1), Some(second.join("libjemalloc.so")));
        assert_eq!(found(2), Some(first.join("libtcmalloc_minimal.so.4")), "the first place wins");
        assert_eq!(peer_in(&PEERS[2], &places[1..]), Some(second.join("libtcmalloc.so.4")));
        assert_eq!((found(3), found(4)), (None, None));
        for place in places {
            fs::remove_dir_all(place).unwrap();
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_what_is_here_and_where_it_looked() {
        let place = dir("unknown", &["libjemalloc.so.2"]);
        let message = unknown("foo", false, core::slice::from_ref(&place)).to_string();
        fs::remove_dir_all(&place).unwrap();
        assert!(message.starts_with("--with: unknown malloc \"foo\", expected all, mimalloc, jemalloc"), "{message}");
        assert!(message.ends_with(&format!("; found here: jemalloc; looked in {}", place.display())), "{message}");
        assert!(unknown("ashlar", false, &[]).to_string().contains("compared anyway"));
    }

    #[test]
    fn rows_have_short_names_of_their_own() {
        let row = |id: &str| Malloc { id: id.to_owned(), preload: None, version: String::new(), options: None };
        let rows = [row("jemalloc"), row("a-very-long-n")];
        assert_eq!(unused_id("jemalloc", &rows), "jemalloc#2");
        assert_eq!(unused_id("a-very-long-name", &rows), "a-very-long#2");
        assert_eq!(unused_id("mimalloc", &rows), "mimalloc");
    }

    #[test]
    fn a_path_that_is_no_shared_library_is_refused() {
        for (path, why) in [("/no/such.so", "No such file"), ("/etc/passwd", "not a shared library")] {
            let message = named_by_path(path).unwrap_err().to_string();
            assert!(message.contains(path) && message.contains(why), "{message}");
        }
    }
}
