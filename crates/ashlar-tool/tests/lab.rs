//! Commands of the lab: the tool becomes `ashlar-lab`, or says how to get it.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use common::{ASHLAR, command, scratch, text};

/// A tree of its own with the tool in `bin`, away from everything that was built.
fn tree(name: &str) -> PathBuf {
    let tree = scratch(name);
    fs::create_dir_all(tree.join("bin")).unwrap();
    fs::hard_link(ASHLAR, tree.join("bin/ashlar")).unwrap();
    tree
}

/// A lab that prints its place and its arguments, one a line, and ends with 3.
fn fake_lab(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    let lab = dir.join("ashlar-lab");
    fs::write(&lab, "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\"\nexit 3\n").unwrap();
    fs::set_permissions(&lab, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The tool of `tree` with nothing of this environment that leads to a lab.
fn tool(tree: &Path) -> std::process::Command {
    let mut command = command(tree.join("bin/ashlar"));
    command.env_remove("CARGO_TARGET_DIR").env_remove("CARGO").env("PATH", "/usr/bin:/bin");
    command
}

#[test]
fn the_lab_is_found_and_gets_the_arguments_untouched() {
    let tree = tree("forward");
    let args = ["bench", "A", "--systems", "glibc,x y", "--", "-h", "--help", "--version"];
    let check = |mut command: std::process::Command, place: &Path| {
        let out = command.args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
        let place = place.join("ashlar-lab").display().to_string();
        assert_eq!(text(&out.stdout).lines().collect::<Vec<_>>(), [&[place.as_str()], &args[..]].concat());
    };
    // From the last place to the first, each hiding the ones before it.
    let other = tree.join("elsewhere");
    fake_lab(&other);
    let mut from_path = tool(&tree);
    from_path.env("PATH", env::join_paths([other.clone(), "/usr/bin".into(), "/bin".into()]).unwrap());
    check(from_path, &other);
    let built = tree.join("built/release");
    fake_lab(&built);
    let mut from_target = tool(&tree);
    from_target.env("CARGO_TARGET_DIR", tree.join("built"));
    check(from_target, &built);
    for dir in ["libexec", "bin"] {
        fake_lab(&tree.join(dir));
        check(tool(&tree), &tree.join(dir));
    }
    let help = tool(&tree).args(["help", "simulate"]).output().unwrap();
    assert!(text(&help.stdout).ends_with("\nhelp\nsimulate\n"), "{}", text(&help.stdout));
    fs::remove_dir_all(tree).unwrap();
}

#[test]
fn a_lab_that_is_missing_is_told_with_the_command_that_builds_it() {
    let tree = tree("no-lab");
    for name in ["bench", "forward", "hackbench", "simulate", "kernel", "reproduce", "soak"] {
        let out = tool(&tree).args([name, "--quick"]).output().unwrap();
        assert_eq!(out.status.code(), Some(2));
        let message = text(&out.stderr);
        assert!(message.starts_with(&format!("ashlar: {name} --quick: no ashlar-lab in ")), "{message}");
        assert!(message.contains("`cargo build --release -p ashlar-lab`"), "{message}");
    }
    // As Cargo starts it, from a directory that Cargo builds into.
    fs::create_dir_all(tree.join("target")).unwrap();
    fs::rename(tree.join("bin"), tree.join("target/release")).unwrap();
    let mut built = command(tree.join("target/release/ashlar"));
    built.env_remove("CARGO_TARGET_DIR").env("CARGO", "cargo").env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
    let out = built.env("PATH", "/usr/bin:/bin").args(["bench", "A"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let wanted =
        "ashlar: bench A: the lab is not built: `cargo run --release -p ashlar-lab -- bench A` builds and runs it\n";
    assert_eq!(text(&out.stderr), wanted);
    fs::remove_dir_all(tree).unwrap();
}
