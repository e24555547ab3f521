//! The systems: glibc as it is, and shared libraries that are preloaded.
//!
//! Peers come from `lab/peers/build.sh`, which builds the newest ones next to the tool
//! (`target/peers`), else from the distribution. Which file it was, and which version, stands
//! beside every figure.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::kit::error::LabError;
use crate::kit::machine;

/// A column of the table.
#[derive(Clone, Debug)]
pub(crate) struct System {
    /// The family, or `ashlar[options]`.
    pub(crate) id: String,
    /// None for glibc.
    pub(crate) preload: Option<PathBuf>,
    pub(crate) version: String,
    /// What `ASHLAR_OPTIONS` gains.
    pub(crate) options: Option<String>,
}

/// A peer: names of its file where distributions put it, and how to get it.
struct Peer {
    id: &'static str,
    files: &'static [&'static str],
    /// The package of Debian, if there is one.
    package: Option<&'static str>,
}

const PEERS: [Peer; 5] = [
    Peer { id: "mimalloc", files: &["libmimalloc.so.3", "libmimalloc.so.2"], package: Some("libmimalloc2.0") },
    Peer { id: "jemalloc", files: &["libjemalloc.so.2"], package: Some("libjemalloc2") },
    Peer { id: "tcmalloc", files: &["libtcmalloc_minimal.so.4"], package: Some("libtcmalloc-minimal4") },
    Peer { id: "snmalloc", files: &[], package: None },
    Peer { id: "rpmalloc", files: &[], package: None },
];

const OURS: &str = "ashlar";
/// Ours without the checks of misuse: no peer, and only there when it is named.
pub(crate) const UNCHECKED: &str = "ashlar-unchecked";
pub(crate) const BASE: &str = "glibc";

/// Whether `id` is a peer that ours is compared with (glibc is the base of the ratios, and none of
/// them).
pub(crate) fn is_peer(id: &str) -> bool {
    PEERS.iter().any(|peer| peer.id == id)
}

/// All systems by id, in the order of the columns.
pub(crate) fn known() -> Vec<&'static str> {
    [BASE, OURS].into_iter().chain(PEERS.iter().map(|peer| peer.id)).chain([UNCHECKED]).collect()
}

/// The systems that `list` names, in the order of the columns, and a line for each peer that `all`
/// could not find.
pub(crate) fn select(list: &str, options: &[String]) -> Result<(Vec<System>, Vec<String>), LabError> {
    let known = known();
    let ordinary = || known.iter().copied().filter(|id| *id != UNCHECKED);
    let all = list.trim() == "all";
    let asked: Vec<&str> = if all { ordinary().collect() } else { list.split(',').map(str::trim).collect() };
    let (mut chosen, mut missing): (Vec<System>, Vec<String>) = (Vec::new(), Vec::new());
    for id in asked {
        if !known.contains(&id) {
            return Err(LabError::option(
                "--systems",
                format_args!(
                    "unknown system `{id}`; expected `all` or a comma-separated list of: {}",
                    known.join(", ")
                ),
            ));
        }
        if chosen.iter().any(|system| system.id == id) {
            continue;
        }
        match open(id)? {
            Ok(system) => chosen.push(system),
            Err(line) if all => missing.push(line),
            Err(line) => return Err(LabError::option("--systems", line)),
        }
    }
    for text in options {
        ashlar::check_options(text).map_err(|error| LabError::option("--option", error))?;
        let id = format!("{OURS}[{text}]");
        let system = System { id, options: Some(text.clone()), ..ours()? };
        let after = chosen.iter().rposition(|system| system.id.starts_with(OURS)).map_or(chosen.len(), |at| at + 1);
        chosen.insert(after, system);
    }
    Ok((chosen, missing))
}

/// The system, or a line that says how to get it.
fn open(id: &str) -> Result<Result<System, String>, LabError> {
    if id == BASE {
        return Ok(Ok(System { id: id.to_owned(), preload: None, version: machine::glibc(), options: None }));
    }
    if id == OURS {
        return ours().map(Ok);
    }
    let peer = PEERS.iter().find(|peer| peer.id == id);
    let found = built(id).or_else(|| packaged(peer?)).map(|(library, version)| System {
        id: id.to_owned(),
        preload: Some(library),
        version,
        options: None,
    });
    Ok(found.ok_or_else(|| {
        let package = peer
            .and_then(|peer| peer.package)
            .map_or_else(String::new, |name| format!(", or `apt-get install {name}`"));
        format!("no library of `{id}` here: `lab/peers/build.sh {id}`{package} gets it")
    }))
}

fn ours() -> Result<System, LabError> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(System { id: OURS.to_owned(), preload: Some(ashlar_tool::library::find()?), version, options: None })
}

/// What `lab/peers/build.sh` made: `peers` beside the directory of the tool.
fn built(id: &str) -> Option<(PathBuf, String)> {
    let tool = env::current_exe().ok()?;
    let dir = tool.parent()?.parent()?.join("peers");
    let library = dir.join(format!("lib{id}.so"));
    if !library.is_file() {
        return None;
    }
    let version = fs::read_to_string(dir.join(format!("{id}.version"))).unwrap_or_default();
    let version = if version.trim().is_empty() { "unknown".to_owned() } else { version.trim().to_owned() };
    Some((library, version))
}

fn packaged(peer: &Peer) -> Option<(PathBuf, String)> {
    let triple = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
    let dirs = [triple.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    let library = dirs
        .iter()
        .flat_map(|dir| peer.files.iter().map(move |file| Path::new(dir).join(file)))
        .find(|path| path.is_file())?;
    let asked = Command::new("dpkg-query").args(["-W", "-f", "${Version}"]).args(peer.package).output();
    let version = match asked {
        Ok(out) if out.status.success() => {
            format!("{} {}", peer.package.unwrap_or(""), String::from_utf8_lossy(&out.stdout))
        }
        // The name of the file behind the link ends with a version.
        _ => library
            .canonicalize()
            .ok()
            .and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_else(|| "unknown".to_owned()),
    };
    Some((library, version))
}

impl System {
    /// Sets the environment of a child that is to run on this system.
    pub(crate) fn prepare(&self, command: &mut Command) {
        // What this process was started with is not meant for all systems.
        command.env_remove("LD_PRELOAD").env_remove("ASHLAR_STATS");
        if let Some(library) = &self.preload {
            command.env("LD_PRELOAD", library);
        }
        if let Some(options) = &self.options {
            let mut all = env::var("ASHLAR_OPTIONS").unwrap_or_default();
            if !all.is_empty() {
                all.push(',');
            }
            command.env("ASHLAR_OPTIONS", all + options);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_systems_are_answered_with_the_known_ones() {
        let error = select("glibc,nosuch", &[]).unwrap_err().to_string();
        assert!(error.contains("`nosuch`") && error.contains("snmalloc") && error.contains("ashlar"), "{error}");
        let error = select("glibc", &["colour=blue".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("--option"), "{error}");
    }

    #[test]
    fn a_list_drops_repeats_and_the_base_is_no_peer() {
        let (systems, missing) = select("glibc, glibc", &[]).unwrap();
        assert_eq!((systems.len(), missing.len()), (1, 0));
        assert!(systems[0].preload.is_none() && !is_peer("glibc") && !is_peer("ashlar") && is_peer("rpmalloc"));
    }
}
