//! What every experiment stands on, and no experiment is: measuring, asking child processes, the
//! form of a run, statistics and tables. Nothing here knows a system or an experiment.

pub(crate) mod bootstrap;
pub(crate) mod counts;
pub(crate) mod csv;
pub(crate) mod error;
pub(crate) mod interval;
pub(crate) mod limited;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod memory;
pub(crate) mod once;
pub(crate) mod options;
pub(crate) mod output;
pub(crate) mod page;
pub(crate) mod pipe;
pub(crate) mod progress;
pub(crate) mod published;
pub(crate) mod random;
pub(crate) mod rating;
pub(crate) mod record;
pub(crate) mod statistics;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod verdict;
