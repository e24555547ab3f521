//! Starts the process that serves a system.

use std::process::Command;

use crate::systems::{Kind, SystemInfo};

/// A command that runs this tool's hidden command `entry` for a system, with its environment.
/// `options` are added to `ASHLAR_OPTIONS` if the system is ours.
pub(crate) fn command(info: &SystemInfo, options: Option<&str>, entry: &str) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    if info.kind == Kind::Ours && (info.engine.is_some() || options.is_some()) {
        // The later of two options wins, and the others stay.
        let mut all = std::env::var("ASHLAR_OPTIONS").unwrap_or_default();
        let engine = info.engine.map(|engine| format!("engine={engine}"));
        for more in engine.as_deref().into_iter().chain(options) {
            all += ",";
            all += more;
        }
        command.env("ASHLAR_OPTIONS", all);
    }
    command.args([entry, info.id]).envs(info.env.iter().copied());
    Ok(command)
}
