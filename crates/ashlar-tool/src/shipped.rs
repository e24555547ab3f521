//! The manual page says what the tool understands.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

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

#[test]
fn the_manual_page_has_every_command_and_option() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the workspace");
    let page = fs::read_to_string(root.join("man/ashlar.1")).expect("the page can be read");
    let mut known = BTreeSet::from(["help".to_owned(), "version".to_owned()]);
    let mut wrong = Vec::new();
    for command in crate::command().get_subcommands() {
        let name = command.get_name();
        let options: BTreeSet<String> =
            command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
        if options.is_empty() {
            // One of the lab's.
            if !page.lines().any(|line| line.starts_with(".Cm") && line.split_whitespace().any(|word| word == name)) {
                wrong.push(format!("the page has no command {name}"));
            }
            continue;
        }
        let section = page.split(&format!("\n.Ss ashlar {name}\n")).nth(1).and_then(|rest| rest.split("\n.S").next());
        let synopsis = page.split(&format!("\n.Cm {name}\n")).nth(1).and_then(|rest| rest.split("\n.Nm\n").next());
        for (place, part) in [("description", section), ("synopsis", synopsis)] {
            let described = options_in(part.unwrap_or_default());
            wrong.extend(options.difference(&described).map(|option| format!("{name}: no --{option} in the {place}")));
            wrong.extend(described.difference(&options).map(|option| format!("{name}: --{option} in the {place}")));
        }
        known.extend(options);
    }
    wrong.extend(options_in(&page).difference(&known).map(|option| format!("no command has --{option}")));
    assert!(wrong.is_empty(), "man/ashlar.1 and the tool differ:\n{}", wrong.join("\n"));
    assert!(known.len() > 9, "only {known:?}: are the commands still read?");
}
