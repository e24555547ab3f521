//! Random numbers for inputs: the same in every run, and those of the workloads.

pub(crate) use ashlar_workload::Rng;
