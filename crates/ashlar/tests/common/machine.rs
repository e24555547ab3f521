//! Descriptions of other machines, in place of `/sys/devices/system`.

use std::fs;
use std::path::PathBuf;

/// A directory with a description, removed on drop.
pub(crate) struct Machine(PathBuf);

impl Machine {
    /// The place of the description, for [`ashlar::testing::describe_system`].
    pub(crate) fn root(&self) -> &'static str {
        self.0.to_str().expect("a path in UTF-8").to_owned().leak()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Describes a machine whose nodes have these numbers and CPUs.
pub(crate) fn described(name: &str, nodes: &[(u32, &str)]) -> Machine {
    let machine = Machine(std::env::temp_dir().join(format!("ashlar-{name}-{}", std::process::id())));
    let write = |file: &str, text: &str| {
        let path = machine.0.join(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    let online: Vec<String> = nodes.iter().map(|(node, _)| node.to_string()).collect();
    write("node/online", &online.join(","));
    for (node, cpus) in nodes {
        write(&format!("node/node{node}/cpulist"), &format!("{cpus}\n"));
    }
    machine
}
