//! Finds `libashlar_malloc.so`, and has Cargo build it where Cargo started the tool.

use std::env;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::ToolError;

/// Names of the library: that of a build or of an installation for developers, and that of one for
/// users.
const NAMES: [&str; 2] = ["libashlar_malloc.so", "libashlar_malloc.so.0"];

/// Returns the shared library: beside this program, or in the library directories beside the
/// program's own.
pub fn find() -> Result<PathBuf, ToolError> {
    let tool = env::current_exe().map_err(|error| ToolError::Failed(format!("cannot find myself: {error}")))?;
    let dir = tool.parent().unwrap_or(Path::new("/"));
    build_under_cargo("ashlar-malloc", NAMES[0])?;
    let prefix = dir.parent().unwrap_or(dir);
    let multiarch = format!("lib/{}-linux-gnu", env::consts::ARCH);
    let places = [dir.to_owned(), prefix.join("lib"), prefix.join(multiarch), prefix.join("lib64")];
    let mut files = places.iter().flat_map(|place| NAMES.map(|name| place.join(name)));
    files.find(|path| path.is_file()).ok_or_else(|| {
        let places = places.map(|place| place.display().to_string()).join(", ");
        ToolError::Failed(format!("no {} in {places}: `cargo build --release` makes it", NAMES[0]))
    })
}

/// The profile's directory that `dir` is, if Cargo started this program from a package of this
/// workspace.
pub(crate) fn profile_under_cargo(dir: &Path) -> Option<&str> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")?;
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let profile = dir.file_name()?.to_str()?;
    let built = profile == "release" || profile == "debug";
    (built && env::var_os("CARGO").is_some() && Path::new(&manifest).parent() == ours).then_some(profile)
}

/// Builds `package` as this program was built, if Cargo started it: `cargo run` and `cargo test` of
/// one package build that package alone. `file` is what the build makes beside this program. (If
/// the library were a dependency, Cargo would build it twice under one name: tests unwind and
/// programs do not.)
///
/// # Errors
/// The build failed.
pub fn build_under_cargo(package: &str, file: &str) -> Result<(), ToolError> {
    let tool = env::current_exe().map_err(|error| ToolError::Failed(format!("cannot find myself: {error}")))?;
    let target = tool.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    build_into_under_cargo(package, file, target, &[])
}

/// As [`build_under_cargo`], with further `options` for Cargo and another target directory, for a
/// build beside this program's.
///
/// # Errors
/// The build failed.
pub fn build_into_under_cargo(package: &str, file: &str, target: &Path, options: &[&str]) -> Result<(), ToolError> {
    let tool = env::current_exe().map_err(|error| ToolError::Failed(format!("cannot find myself: {error}")))?;
    let dir = tool.parent().unwrap_or(Path::new("/"));
    let (Some(profile), Some(cargo)) = (profile_under_cargo(dir), env::var_os("CARGO")) else {
        return Ok(());
    };
    let mut build = Command::new(cargo);
    build.args(["build", "-p", package]).args(options).current_dir(env!("CARGO_MANIFEST_DIR"));
    // The first build takes a while, and Cargo shows a waiting user how far it is.
    if target.join(profile).join(file).exists() || !stderr().is_terminal() {
        build.arg("--quiet");
    }
    build.arg("--target-dir").arg(target);
    if profile == "release" {
        build.arg("--release");
    }
    match build.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(ToolError::Failed(format!("`cargo build -p {package}`: {status}"))),
        Err(error) => Err(ToolError::Failed(format!("`cargo build -p {package}`: {error}"))),
    }
}
