//! Which malloc a program calls: told by the dynamic linker, not believed.
//!
//! A library that is preloaded may be ignored: by a program with the rights of another user, by a
//! static program that a script starts, by one that brings a malloc of its own. Such a run would
//! show a ratio of 1.00 that means nothing. So each malloc has one run, which does not count, under
//! `LD_DEBUG=bindings`: glibc's linker writes for each process which library a symbol was bound to.
//! Meanwhile the mappings of all processes of the program are looked at, which finds those that
//! have no dynamic linker, and serves where the C library is another one.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

/// A process is believed to run without the library if it was seen so this often, about a
/// millisecond apart: loading the library takes less.
const SEEN: u32 = 5;

/// A run under observation.
#[derive(Debug)]
pub(super) struct Probe {
    file: PathBuf,
    dir: PathBuf,
    main: i32,
    seen: HashMap<(i32, PathBuf), Seen>,
    /// What the main process ran when it was last seen.
    last: Option<PathBuf>,
}

/// How often a process was seen with and without the library.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    with: u32,
    without: u32,
}

/// What a probe found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Found {
    /// Why the program does not call this malloc; none if it does.
    pub(super) refused: Option<String>,
    /// Dynamically linked processes of the program, and how many of them had the library.
    pub(super) processes: usize,
    pub(super) served: usize,
    /// Programs among its descendants that ran without the library.
    pub(super) without: BTreeSet<String>,
}

/// What the linker wrote of one process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Bindings {
    /// The library was loaded.
    loaded: bool,
    /// malloc was bound to the library.
    served: bool,
    /// Another file that malloc was bound to.
    other: Option<String>,
}

impl Probe {
    pub(super) fn new(library: &Path) -> io::Result<Self> {
        let base = std::env::temp_dir();
        let name = |number: u32| base.join(format!("ashlar-probe-{}-{number}", std::process::id()));
        let made = (0..).map(name).find_map(|dir| match fs::create_dir(&dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => None,
            made => Some(made.map(|()| dir)),
        });
        let dir = made.unwrap_or_else(|| Err(ErrorKind::AlreadyExists.into()))?;
        Ok(Self { file: library.to_owned(), dir, main: 0, seen: HashMap::new(), last: None })
    }

    /// Has the linker write what it does.
    pub(super) fn prepare(&self, command: &mut Command) {
        command.env("LD_DEBUG", "bindings").env("LD_DEBUG_OUTPUT", self.dir.join("of"));
    }

    /// Names the process that is the program.
    pub(super) fn started(&mut self, main: i32) {
        self.main = main;
    }

    /// Looks at the program and its descendants.
    pub(super) fn look(&mut self) {
        let mut pids = vec![self.main];
        while let Some(pid) = pids.pop() {
            self.look_at(pid);
            pids.extend(children(pid));
        }
    }

    fn look_at(&mut self, pid: i32) {
        let program = fs::read_link(format!("/proc/{pid}/exe"));
        let without = match fs::read(format!("/proc/{pid}/maps")) {
            // One that has ended has no mappings any more.
            Ok(maps) if maps.is_empty() => return,
            Ok(maps) => !contains(&maps, self.file.as_os_str().as_encoded_bytes()),
            // The mappings of a program with the rights of another user are not shown.
            Err(error) => error.kind() == ErrorKind::PermissionDenied,
        };
        let name = || fs::read_to_string(format!("/proc/{pid}/comm")).map(|name| name.trim().into());
        let Ok(program) = program.or_else(|_| name()) else { return };
        if pid == self.main {
            self.last = Some(program.clone());
        }
        let seen = self.seen.entry((pid, program)).or_default();
        if without {
            seen.without += 1;
        } else {
            seen.with += 1;
        }
    }

    /// Says what was found, when the program has ended.
    pub(super) fn found(&self) -> io::Result<Found> {
        let mut found = Found::default();
        let mut main = Bindings::default();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            let bindings = Bindings::read(BufReader::new(File::open(&path)?), &self.file)?;
            found.processes += 1;
            found.served += usize::from(bindings.loaded && (bindings.served || bindings.other.is_none()));
            let is_main = path.extension().is_some_and(|pid| *pid == *self.main.to_string());
            match &bindings.other {
                _ if is_main => main = bindings,
                Some(other) if !bindings.served => _ = found.without.insert(format!("{other} (a malloc of its own)")),
                _ => {}
            }
        }
        let bare = self.seen.iter().filter(|(_, seen)| seen.with == 0 && seen.without >= SEEN);
        let bare: Vec<(i32, &Path)> = bare.map(|((pid, program), _)| (*pid, program.as_path())).collect();
        found
            .without
            .extend(bare.iter().filter(|(pid, _)| *pid != self.main).map(|(_, path)| path.display().to_string()));
        let mapped = self.seen.iter().any(|((pid, _), seen)| *pid == self.main && seen.with > 0);
        let last_is_bare = bare.iter().any(|(pid, path)| *pid == self.main && self.last.as_deref() == Some(path));
        found.refused = match (&self.last, &main) {
            (Some(last), _) if last_is_bare => Some(format!("{} runs without it", last.display())),
            (_, Bindings { loaded: true, served: false, other: Some(other) }) => {
                Some(format!("malloc is that of {other}"))
            }
            (_, Bindings { loaded: true, .. }) => None,
            _ if mapped => None,
            _ => Some("it was not loaded".to_owned()),
        };
        Ok(found)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // Nothing can be done about what stays in a directory for temporary files.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Bindings {
    /// Reads lines of the form "PID: binding file A [0] to B [0]: normal symbol `malloc'
    /// [VERSION]".
    fn read(mut lines: impl BufRead, library: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        let library = library.to_string_lossy();
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let text = String::from_utf8_lossy(&line);
            if let Some((from, to, symbol)) = binding(&text) {
                found.loaded |= from == library || to == library;
                if symbol == "malloc" {
                    if to == library {
                        found.served = true;
                    } else {
                        found.other = Some(to.to_owned());
                    }
                }
            }
            line.clear();
        }
        Ok(found)
    }
}

fn binding(line: &str) -> Option<(&str, &str, &str)> {
    let (from, rest) = line.split_once("binding file ")?.1.split_once(" [")?;
    let (to, rest) = rest.split_once(" to ")?.1.split_once(" [")?;
    Some((from, to, rest.split_once('`')?.1.split_once('\'')?.0))
}

fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()).collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &str = "/opt/libx.so";

    fn read(text: &str) -> Bindings {
        Bindings::read(text.as_bytes(), Path::new(LIBRARY)).unwrap()
    }

    #[test]
    fn the_lines_of_the_linker_tell_which_malloc_is_called() {
        let line = |from: &str, to: &str, symbol: &str| {
            format!("     27558:\tbinding file {from} [0] to {to} [0]: normal symbol `{symbol}' [GLIBC_2.2.5]\n")
        };
        let libc = "/lib/libc.so.6";
        assert_eq!(read(""), Bindings::default());
        let served = read(&(line(libc, LIBRARY, "malloc") + &line("/bin/a", libc, "write")));
        assert_eq!(served, Bindings { loaded: true, served: true, other: None });
        let own = read(&(line(LIBRARY, libc, "write") + &line(libc, "/bin/a", "malloc")));
        assert_eq!(own, Bindings { loaded: true, served: false, other: Some("/bin/a".to_owned()) });
        let absent = read(&line("/bin/a", libc, "malloc"));
        assert_eq!(absent, Bindings { loaded: false, served: false, other: Some(libc.to_owned()) });
    }

    #[test]
    fn a_process_and_its_children_are_looked_at() {
        let mut child = Command::new("sh").args(["-c", "sleep 5; :"]).spawn().unwrap();
        let mut probe = Probe::new(Path::new("/no/such/library.so")).unwrap();
        let dir = probe.dir.clone();
        let main = child.id().cast_signed();
        probe.started(main);
        let sleeps = |probe: &Probe| probe.seen.keys().any(|(pid, program)| *pid != main && program.ends_with("sleep"));
        for _ in 0..100_000 {
            probe.look();
            if sleeps(&probe) {
                break;
            }
        }
        for _ in 0..SEEN {
            probe.look();
        }
        let sleep = probe.seen.keys().find(|(pid, _)| *pid != main).unwrap().0;
        // What the linker wrote of this one process.
        fs::write(dir.join(format!("of.{main}")), "").unwrap();
        let found = probe.found().unwrap();
        assert!(found.refused.unwrap().ends_with("runs without it"));
        assert_eq!((found.processes, found.served), (1, 0));
        assert!(found.without.iter().any(|program| program.contains("sleep")), "{:?}", found.without);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Command::new("kill").arg(sleep.to_string()).status().unwrap().success());
        drop(probe);
        assert!(!dir.exists());
    }
}
