//! The experiments. None imports another: what two of them need stands in `kit` or `systems`.
//!
//! Each has the same five rooms. A room that an experiment has no use for is left out, and the head
//! of the experiment gives the reason. `tests/rooms.rs` checks both rules.
//!
//! | room | what it holds |
//! |---|---|
//! | `args` | the options, each checked by name |
//! | `plan` | what is measured, what a process is asked and answers, what becomes of the answers |
//! | `child` | the measured process |
//! | `table` | the figures as text |
//! | `targets` | what the project asks of the figures |

pub(crate) mod bulk;
pub(crate) mod checks;
pub(crate) mod forward;
pub(crate) mod hackbench;
pub(crate) mod kernel;
pub(crate) mod kernel_tests;
pub(crate) mod memory;
pub(crate) mod programs;
pub(crate) mod reproduce;
pub(crate) mod simulate;
pub(crate) mod soak;
pub(crate) mod worst;
