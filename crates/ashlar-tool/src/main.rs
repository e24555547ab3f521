//! The program `ashlar`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ashlar_tool::run_tool(std::env::args_os())
}
