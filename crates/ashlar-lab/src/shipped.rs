//! What is installed beside the lab says what it understands: completions for shells, for the tool
//! too, and the manual page.
//!
//! Completions are files of the repository, not an output of the build, so that an installation for
//! another machine need not run the tool. `ASHLAR_UPDATE_GOLDEN=1 cargo test -p ashlar-lab shipped`
//! writes them anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, Resettable};
use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};

use crate::experiments::{forward, programs, reproduce};
use crate::registry::args::Cli;
use crate::systems::{self, SystemInfo};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the workspace").to_owned()
}

/// A command without its hidden subcommands, which the lab starts itself.
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
    let args = command.get_arguments().map(|arg| match values(name, arg.get_long().unwrap_or_default()) {
        values if values.is_empty() => arg.clone(),
        // The default may be a list, which none of the values is.
        values => {
            let values = values.into_iter().map(|value| &*value.leak());
            arg.clone().value_parser(PossibleValuesParser::new(values)).default_value(Resettable::Reset)
        }
    });
    copy.args(args.collect::<Vec<_>>()).subcommands(shown.map(visible))
}

/// The values of an option that clap does not know: names that make lists, of which shells complete
/// the first.
fn values(command: &str, option: &str) -> Vec<String> {
    let all = |names: Vec<&str>| ["all"].into_iter().chain(names).map(str::to_owned).collect();
    let engines = || ashlar::Engine::ALL.iter().map(|engine| engine.id()).collect::<Vec<_>>();
    let ids = |which: fn(&SystemInfo) -> bool| systems::all().filter(|info| which(info)).map(|info| info.id).collect();
    match (command, option) {
        ("run", "engine") => engines().into_iter().map(str::to_owned).collect(),
        (_, "option") => option_keys(),
        ("worst" | "simulate", "systems") => all(engines()),
        ("programs", "systems") => all(programs::system_names()),
        ("forward", "systems") => all(ids(|info| info.forwards)),
        (_, "systems") => all(ids(|_| true)),
        ("programs", "workloads") => all(programs::workload_names()),
        ("forward", "modes") => all(forward::mode_names()),
        ("reproduce", "runs") => all(reproduce::run_names()),
        _ => Vec::new(),
    }
}

/// The keys of the allocator's options, as its own error lists them.
fn option_keys() -> Vec<String> {
    let error = ashlar::check_options("no-such-option=1").expect_err("there is no such option").to_string();
    let keys = error.split("one of the keys ").nth(1).and_then(|rest| rest.split(';').next()).expect("a list of keys");
    keys.split(',').map(|key| format!("{}=", key.trim())).collect()
}

/// The command line of the tool, in which the commands that it forwards have the lab's options.
fn tool() -> Command {
    let (tool, lab) = (ashlar_tool::command(), Cli::command());
    let of_lab = |name: &str| lab.find_subcommand(name).filter(|sub| !sub.is_hide_set());
    let combined = tool.get_subcommands().map(|sub| visible(of_lab(sub.get_name()).unwrap_or(sub)));
    let combined: Vec<Command> = combined.collect();
    for command in lab.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        assert!(tool.find_subcommand(command.get_name()).is_some(), "the tool does not forward {}", command.get_name());
    }
    Command::new("ashlar").version(env!("CARGO_PKG_VERSION")).subcommands(combined)
}

#[test]
fn completions_are_those_of_the_commands() {
    for (name, command) in [("ashlar", tool()), ("ashlar-lab", visible(&Cli::command()))] {
        for (shell, file) in [
            (Shell::Bash, format!("{name}.bash")),
            (Shell::Zsh, format!("_{name}")),
            (Shell::Fish, format!("{name}.fish")),
        ] {
            check_completions(shell, &file, name, command.clone());
        }
    }
}

/// Holds a file of the repository against what clap makes of the command.
fn check_completions(shell: Shell, file: &str, name: &str, mut command: Command) {
    let path = root().join("packaging/completions").join(file);
    let mut wanted = Vec::new();
    generate(shell, &mut command, name, &mut wanted);
    // clap_complete leaves blanks at ends of lines, which git complains about.
    let wanted = String::from_utf8(wanted).expect("completions are text");
    // It also writes `ashlar__subcmd__lab` where it looks for `ashlar__lab`: a name with a hyphen.
    let wanted = wanted.replace("ashlar__subcmd__lab", "ashlar__lab");
    let wanted = wanted.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n";
    if std::env::var_os("ASHLAR_UPDATE_GOLDEN").is_some() {
        fs::write(&path, &wanted).expect("the file can be written");
    }
    let found = fs::read_to_string(&path).expect("the file can be read");
    assert!(found == wanted, "{} is old: ASHLAR_UPDATE_GOLDEN=1 writes it anew", path.display());
}

/// What bash completes `words` to, of which the last is being typed.
fn bash_completes(words: &[&str]) -> String {
    let (program, [.., before, typed]) = (words[0], words) else { panic!("at least a program and a word: {words:?}") };
    let script = format!(
        ". packaging/completions/{program}.bash; COMP_WORDS=({}); COMP_CWORD={}; _{} {program} '{typed}' {before}; \
         echo \"${{COMPREPLY[*]}}\"",
        words.join(" "),
        words.len() - 1,
        program.replace('-', "__")
    );
    let out = std::process::Command::new("bash").args(["-c", &script]).current_dir(root()).output();
    String::from_utf8(out.expect("bash runs").stdout).expect("completions are text").trim().to_owned()
}

#[test]
fn bash_completes_commands_options_and_names() {
    for (words, completed) in [
        (&["ashlar", "run", "--st"][..], "--stats"),
        (&["ashlar", "simul"], "simulate"),
        (&["ashlar", "bench", "--wid"], "--wide"),
        (&["ashlar-lab", "hackbench", "--gr"], "--groups"),
        (&["ashlar-lab", "bench", "--systems", "gli"], "glibc"),
        (&["ashlar-lab", "bench", "programs", "--workloads", "handover-"], "handover-small"),
        (&["ashlar-lab", "bench", "worst", "--systems", "slob-s"], "slob-seg"),
    ] {
        assert_eq!(bash_completes(words), completed, "{words:?}");
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
    let page = fs::read_to_string(root().join("man/ashlar-lab.1")).expect("the page can be read");
    let (mut known, mut wrong) = (BTreeSet::from(["help".to_owned(), "version".to_owned()]), Vec::new());
    check_page(&Cli::command(), "ashlar-lab", &page, &mut known, &mut wrong);
    wrong.extend(options_in(&page).difference(&known).map(|option| format!("no command has --{option}")));
    assert!(wrong.is_empty(), "man/ashlar-lab.1 and the lab differ:\n{}", wrong.join("\n"));
    assert!(known.len() > 15, "only {known:?}: are the commands still read?");
}
