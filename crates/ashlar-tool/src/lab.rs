//! The commands of the lab: the tool becomes the program `ashlar-lab`, which is a package of its
//! own.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::ToolError;
use crate::{library, program};

/// The lab's program.
const LAB: &str = "ashlar-lab";

/// The lab's commands, each with what the help of the tool says about it.
pub(crate) const COMMANDS: [(&str, &str); 7] = [
    ("bench", "Run the kernel's slab tests on ashlar and its peers (the lab)"),
    ("forward", "Forward packets with heads from ashlar and its peers (the lab)"),
    ("hackbench", "Send messages between groups of senders and receivers (the lab)"),
    ("simulate", "Predict the kernel's slab tests for larger machines (the lab)"),
    ("kernel", "Boot a small kernel on ashlar and run the slab tests in ring 0 (the lab)"),
    ("reproduce", "Check the claims of the mails that ashlar starts from (the lab)"),
    ("soak", "Use everything at once and check that nothing is lost (the lab)"),
];

/// Returns the arguments for the lab if `args`, the tool's own with its name first, are a command
/// of the lab.
pub(crate) fn forwarded(args: &[OsString]) -> Option<Vec<OsString>> {
    let is_command = |word: &OsString| COMMANDS.iter().any(|(name, _)| word == name);
    match args {
        [_, command, ..] if is_command(command) => Some(args[1..].to_vec()),
        [_, help, command, ..] if help == "help" && is_command(command) => Some(args[1..].to_vec()),
        _ => None,
    }
}

/// Becomes the lab; returns the error that prevents it.
pub(crate) fn become_lab(args: &[OsString]) -> ToolError {
    let tool = match env::current_exe() {
        Ok(path) => path,
        Err(error) => return ToolError::Failed(format!("cannot find myself: {error}")),
    };
    let dir = tool.parent().unwrap_or(Path::new("/"));
    let places = places(dir, env::var_os("CARGO_TARGET_DIR").as_deref());
    let beside = places.iter().map(|place| place.join(LAB)).find(|path| path.is_file());
    let Some(lab) = beside.or_else(|| program::find_in_path(LAB.as_ref())) else {
        return missing(args, dir, &places);
    };
    let error = Command::new(&lab).args(args).exec();
    ToolError::Failed(format!("{}: {error}", lab.display()))
}

/// Returns the directories that may hold the lab, for a tool in `dir`: its own, `../libexec`, and
/// those that Cargo builds into.
fn places(dir: &Path, target: Option<&OsStr>) -> Vec<PathBuf> {
    let parent = dir.parent().unwrap_or(dir);
    let mut places = vec![dir.to_owned(), parent.join("libexec")];
    if dir.ends_with("debug") {
        places.push(parent.join("release"));
    }
    places.extend(target.map(|target| Path::new(target).join("release")));
    places.dedup();
    places
}

/// Says how to get the lab, where there is none.
fn missing(args: &[OsString], dir: &Path, places: &[PathBuf]) -> ToolError {
    let command = args.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    ToolError::Usage(if library::profile_under_cargo(dir).is_some() {
        format!("{command}: the lab is not built: `cargo run --release -p {LAB} -- {command}` builds and runs it")
    } else {
        let places = places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ");
        format!(
            "{command}: no {LAB} in {places} or PATH: `cargo build --release -p {LAB}` in the sources of ashlar \
             builds it, `make install-lab` installs it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_lab_gets_its_commands_and_the_tool_keeps_its_own() {
        assert_eq!(forwarded(&words("ashlar bench A --help")), Some(words("bench A --help")));
        assert_eq!(forwarded(&words("ashlar help simulate")), Some(words("help simulate")));
        for own in
            ["ashlar", "ashlar run -- bench", "ashlar compare -- bench", "ashlar help run", "ashlar --help bench"]
        {
            assert_eq!(forwarded(&words(own)), None, "{own}");
        }
    }

    #[test]
    fn the_lab_is_looked_for_where_it_is_built_and_installed() {
        let found = places(Path::new("/usr/bin"), None);
        assert_eq!(found, [PathBuf::from("/usr/bin"), "/usr/libexec".into()]);
        let found = places(Path::new("/src/target/debug"), Some(OsStr::new("/built")));
        assert_eq!(found.last().unwrap(), Path::new("/built/release"));
        assert!(found.contains(&"/src/target/release".into()));
    }
}
