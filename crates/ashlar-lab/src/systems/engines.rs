//! Engines of ashlar, where an experiment is about them alone.

use ashlar::Engine;

use crate::kit::error::LabError;

/// The engines of `list`, in its order, each once.
pub(crate) fn engines(list: &str) -> Result<Vec<Engine>, LabError> {
    let known = || Engine::ALL.iter().map(|engine| engine.id()).collect::<Vec<_>>().join(", ");
    if list == "all" {
        return Ok(Engine::ALL.to_vec());
    }
    let mut found = Vec::new();
    for id in list.split(',').map(str::trim) {
        let engine = Engine::from_id(id).ok_or_else(|| {
            LabError::option(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_taken_once_and_others_are_refused_with_the_known_ones() {
        assert_eq!(engines("slob, ashlar,slob").unwrap(), [Engine::Slob, Engine::Sheaves]);
        assert_eq!(engines("all").unwrap(), Engine::ALL);
        let message = engines("slob,glibc").unwrap_err().to_string();
        assert!(message.contains("--systems: `glibc` is no engine") && message.contains("slob-seg"), "{message}");
    }
}
