//! The page size of ashlar and its engines is a constant of the build. So another page size is
//! another build of the lab, which takes this process's place.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ashlar_tool::library::build_into_under_cargo;
use clap::ValueEnum;

use crate::kit::error::LabError;

/// A page size that ashlar can be built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Page {
    #[value(name = "4K")]
    Kib4,
    #[value(name = "16K")]
    Kib16,
    #[value(name = "64K")]
    Kib64,
}

impl Page {
    const fn bytes(self) -> usize {
        match self {
            Self::Kib4 => 4 << 10,
            Self::Kib16 => 16 << 10,
            Self::Kib64 => 64 << 10,
        }
    }

    /// The feature of the build; none for the default.
    const fn feature(self) -> Option<&'static str> {
        match self {
            Self::Kib4 => None,
            Self::Kib16 => Some("page-16k"),
            Self::Kib64 => Some("page-64k"),
        }
    }

    /// Returns if this program has such pages. Otherwise the build that has them takes over with
    /// the same arguments. Where Cargo started this program, it makes that build.
    ///
    /// # Errors
    /// There is no such build, or it cannot be started.
    pub(crate) fn take_over(self) -> Result<(), LabError> {
        if self.bytes() == ashlar::PAGE_SIZE {
            return Ok(());
        }
        let tool = std::env::current_exe().map_err(|error| LabError::Failed(format!("cannot find myself: {error}")))?;
        let place = self.place(&tool);
        let options = self.options();
        if let Some(target) = place.parent().and_then(Path::parent) {
            build_into_under_cargo("ashlar-lab", NAME_OF_FILE, target, &options)?;
        }
        if !place.is_file() {
            let kib = self.bytes() >> 10;
            return Err(LabError::option(
                "--page",
                format_args!(
                    "pages of {kib} KiB need a build of their own, {}, which {} makes",
                    place.display(),
                    self.command()
                ),
            ));
        }
        let error = Command::new(&place).args(std::env::args_os().skip(1)).exec();
        Err(LabError::Failed(format!("{}: {error}", place.display())))
    }

    /// Where the build lies, for a lab at `tool`: `target/page-16k/release` for `target/release`,
    /// and back.
    fn place(self, tool: &Path) -> PathBuf {
        let dir = tool.parent().unwrap_or(Path::new("/"));
        let profile = dir.file_name().unwrap_or_default();
        let target = dir.parent().unwrap_or(dir);
        let is_ours = target.file_name().is_some_and(|name| {
            Self::value_variants().iter().any(|page| page.feature().is_some_and(|feature| name == feature))
        });
        let target = if is_ours { target.parent().unwrap_or(target) } else { target };
        self.feature()
            .map_or_else(|| target.to_owned(), |feature| target.join(feature))
            .join(profile)
            .join(NAME_OF_FILE)
    }

    /// What Cargo is told beside the package. No peers: their pages are their own.
    fn options(self) -> Vec<&'static str> {
        self.feature().map_or_else(Vec::new, |feature| vec!["--no-default-features", "--features", feature])
    }

    /// The command that makes the build in the sources.
    fn command(self) -> String {
        let place = self.feature().map_or_else(String::new, |feature| format!(" --target-dir target/{feature}"));
        let options: String = self.options().iter().map(|option| format!(" {option}")).collect();
        format!("`cargo build --release -p ashlar-lab{options}{place}`")
    }
}

/// The file that Cargo makes.
const NAME_OF_FILE: &str = "ashlar-lab";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_build_finds_the_others() {
        let [own, other] = ["/src/target/release/ashlar-lab", "/src/target/page-16k/release/ashlar-lab"];
        for from in [own, other] {
            assert_eq!(Page::Kib4.place(Path::new(from)), Path::new(own));
            assert_eq!(Page::Kib16.place(Path::new(from)), Path::new(other));
        }
    }

    #[test]
    fn the_command_names_the_feature_and_the_place() {
        assert_eq!(
            Page::Kib16.command(),
            "`cargo build --release -p ashlar-lab --no-default-features --features page-16k --target-dir target/page-16k`"
        );
        assert_eq!(Page::Kib4.command(), "`cargo build --release -p ashlar-lab`");
    }

    #[test]
    fn this_build_takes_over_from_no_other() {
        let own = Page::value_variants().iter().find(|page| page.bytes() == ashlar::PAGE_SIZE);
        assert!(own.is_some_and(|page| page.take_over().is_ok()));
    }
}
