//! The value of `LD_PRELOAD`.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::ToolError;

/// Returns the value that preloads `library` first, then what the environment preloads anyway.
pub fn list(library: &Path) -> Result<OsString, ToolError> {
    // The dynamic linker splits the value at both, and knows no way to quote them.
    if library.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        let path = library.display();
        return Err(ToolError::Usage(format!("{path}: LD_PRELOAD cannot name a path with a blank or a colon")));
    }
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_the_dynamic_linker_would_split_is_refused() {
        assert!(list(Path::new("/opt/my lib/libashlar_malloc.so")).is_err());
        assert!(list(Path::new("/opt/a:b/libashlar_malloc.so")).is_err());
        assert!(
            list(Path::new("/opt/libashlar_malloc.so")).unwrap().as_bytes().starts_with(b"/opt/libashlar_malloc.so")
        );
    }
}
