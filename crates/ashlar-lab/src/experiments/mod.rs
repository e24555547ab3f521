//! The experiments. None knows another: what two of them need stands in `kit` or in `systems`.
//!
//! Each has the same rooms. `args`: its options. `plan`: what is to be measured, what a process is told and answers, what becomes of
//! the answers. `child`: the measured process. `table`: the figures as text. `targets`: what the project asks of them. A room that would
//! be empty is left out, and the head of the experiment says so.

pub(crate) mod bulk;
pub(crate) mod forward;
pub(crate) mod hackbench;
pub(crate) mod kernel_tests;
pub(crate) mod memory;
pub(crate) mod programs;
pub(crate) mod reproduce;
pub(crate) mod simulate;
pub(crate) mod worst;
