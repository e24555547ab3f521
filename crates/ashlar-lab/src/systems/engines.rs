//! Engines of ashlar, where an experiment is about them alone.

use ashlar::Engine;

use crate::kit::error::CliError;

/// The engines of `list`, in its order, each once.
pub(crate) fn engines(list: &str) -> Result<Vec<Engine>, CliError> {
    let known = || Engine::ALL.iter().map(|engine| engine.id()).collect::<Vec<_>>().join(", ");
    if list == "all" {
        return Ok(Engine::ALL.to_vec());
    }
    let mut found = Vec::new();
    for id in list.split(',').map(str::trim) {
        let engine = Engine::from_id(id).ok_or_else(|| {
            CliError::option(
                "--systems",
                format_args!("`{id}` is no engine of ashlar; expected `all` or some of {}", known()),
            )
        })?;
        if !found.contains(&engine) {
            found.push(engine);
        }
    }
    Ok(found)
}
