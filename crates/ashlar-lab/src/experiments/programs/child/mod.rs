//! The measured processes: programs of this machine and workloads of ours, each on one system.
//!
//! `process` runs one and reads what it took; `real` knows the programs and `inputs` what they work
//! on; `redis` is a server with its client; `synthetic` has the workloads of ours run; `startup` is
//! the least that a program can be.

mod inputs;
mod job;
pub(crate) mod process;
pub(crate) mod real;
mod redis;
pub(crate) mod startup;
pub(crate) mod synthetic;
