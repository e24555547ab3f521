//! What is installed beside the tool says what the tool understands: completions for shells, and the manual page.
//!
//! Completions are files of the repository, not an output of the build, so that an installation for another machine
//! need not run the tool. `ASHLAR_UPDATE_GOLDEN=1 cargo test -p ashlar-lab shipped` writes them anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};

use crate::registry::args::Cli;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the workspace").to_owned()
}

/// A command without its hidden subcommands, which the tool starts itself.
fn visible(command: &Command) -> Command {
    let name: &'static str = command.get_name().to_owned().leak();
    let mut copy = Command::new(name);
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    if command.get_version().is_some() {
        copy = copy.version(env!("CARGO_PKG_VERSION"));
    }
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    copy.args(command.get_arguments().cloned()).subcommands(shown.map(visible))
}

#[test]
fn completions_are_those_of_the_commands() {
    for (shell, file) in [(Shell::Bash, "ashlar.bash"), (Shell::Zsh, "_ashlar"), (Shell::Fish, "ashlar.fish")] {
        let path = root().join("packaging/completions").join(file);
        let mut wanted = Vec::new();
        generate(shell, &mut visible(&Cli::command()), "ashlar", &mut wanted);
        // clap_complete leaves blanks at ends of lines, which git complains about.
        let wanted = String::from_utf8(wanted).expect("completions are text");
        let wanted = wanted.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n";
        if std::env::var_os("ASHLAR_UPDATE_GOLDEN").is_some() {
            fs::write(&path, &wanted).expect("the file can be written");
        }
        let found = fs::read_to_string(&path).expect("the file can be read");
        assert!(found == wanted, "{} is old: ASHLAR_UPDATE_GOLDEN=1 writes it anew", path.display());
    }
}

/// The options `.Fl -name` of a part of the page.
fn options_in(part: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in part.lines().filter(|line| line.starts_with('.')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pairs = words.windows(2).filter(|pair| pair[0].ends_with("Fl"));
        found.extend(pairs.filter_map(|pair| pair[1].strip_prefix('-')).map(str::to_owned));
    }
    // A lone `.Fl -` is the mark before the program's own arguments.
    found.remove("");
    found
}

/// Holds each visible command below `command` against the part of the page with its name as head.
fn check_page(command: &Command, name: &str, page: &str, known: &mut BTreeSet<String>, wrong: &mut Vec<String>) {
    let options: BTreeSet<String> =
        command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
    if command.get_arguments().next().is_some() {
        match page.split(&format!("\n.Ss {name}\n")).nth(1).and_then(|rest| rest.split("\n.S").next()) {
            Some(part) => {
                let described = options_in(part);
                wrong.extend(options.difference(&described).map(|option| format!("{name} has --{option}")));
                wrong.extend(described.difference(&options).map(|option| format!("{name} has no --{option}")));
            }
            None => wrong.push(format!("there is no part `.Ss {name}`")),
        }
    }
    known.extend(options);
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        check_page(sub, &format!("{name} {}", sub.get_name()), page, known, wrong);
    }
}

#[test]
fn the_manual_page_has_every_command_and_option() {
    let page = fs::read_to_string(root().join("man/ashlar.1")).expect("the page can be read");
    let (mut known, mut wrong) = (BTreeSet::from(["help".to_owned(), "version".to_owned()]), Vec::new());
    check_page(&Cli::command(), "ashlar", &page, &mut known, &mut wrong);
    wrong.extend(options_in(&page).difference(&known).map(|option| format!("no command has --{option}")));
    assert!(wrong.is_empty(), "man/ashlar.1 and the tool differ:\n{}", wrong.join("\n"));
    assert!(known.len() > 15, "only {known:?}: are the commands still read?");
}
