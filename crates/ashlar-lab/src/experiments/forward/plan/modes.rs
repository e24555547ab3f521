//! The configurations of the mail: which options of the allocator, and how heads are freed.

use serde::{Deserialize, Serialize};

use crate::kit::error::LabError;

/// One line of the mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Mode {
    Normal,
    Nomerge,
    Bulk,
    BulkNomerge,
    BulkTuned,
}

impl Mode {
    pub(crate) const ALL: [Self; 5] = [Self::Normal, Self::Nomerge, Self::Bulk, Self::BulkNomerge, Self::BulkTuned];

    /// On the command line and in the JSON.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Nomerge => "nomerge",
            Self::Bulk => "bulk",
            Self::BulkNomerge => "bulk-nomerge",
            Self::BulkTuned => "bulk-tuned",
        }
    }

    /// As the mail calls it; `bulk` is the most heads of one call.
    pub(crate) fn title(self, bulk: usize) -> String {
        match self {
            Self::Normal => "Normal".to_owned(),
            Self::Nomerge => "slab_nomerge".to_owned(),
            Self::Bulk => format!("Bulk-free{bulk}"),
            Self::BulkNomerge => format!("Bulk-free{bulk}, slab_nomerge"),
            Self::BulkTuned => format!("Bulk-free{bulk}, slub-tuned"),
        }
    }

    /// Heads go back in bulk.
    pub(crate) fn is_bulk(self) -> bool {
        matches!(self, Self::Bulk | Self::BulkNomerge | Self::BulkTuned)
    }

    /// The tunables of the cache of heads are the mail's: `Pool::tune`.
    pub(crate) fn is_tuned(self) -> bool {
        matches!(self, Self::BulkTuned)
    }

    /// What is added to `ASHLAR_OPTIONS` of its process.
    pub(crate) fn options(self) -> &'static str {
        match self {
            Self::Normal | Self::Bulk | Self::BulkTuned => "",
            Self::Nomerge | Self::BulkNomerge => "nomerge",
        }
    }

    /// The differences that the mail prints: each mode against another.
    pub(crate) const DIFFERENCES: [(Self, Self); 5] = [
        (Self::Nomerge, Self::Normal),
        (Self::Bulk, Self::Normal),
        (Self::BulkNomerge, Self::Bulk),
        (Self::BulkNomerge, Self::Normal),
        (Self::BulkTuned, Self::BulkNomerge),
    ];
}

/// The modes that `--modes` names, in the order of the mail.
pub(crate) fn select(list: &str) -> Result<Vec<Mode>, LabError> {
    if list.trim() == "all" {
        return Ok(Mode::ALL.to_vec());
    }
    let mut chosen = Vec::new();
    for id in list.split(',').map(str::trim) {
        let Some(mode) = Mode::ALL.into_iter().find(|mode| mode.id() == id) else {
            let known = Mode::ALL.map(Mode::id).join(", ");
            return Err(LabError::option(
                "--modes",
                format_args!("unknown mode `{id}`; expected `all` or a comma-separated list of: {known}"),
            ));
        };
        chosen.push(mode);
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_come_in_the_order_of_the_mail_and_once() {
        assert_eq!(select("bulk, normal,bulk").unwrap(), [Mode::Normal, Mode::Bulk]);
        assert_eq!(select("all").unwrap(), Mode::ALL);
        let message = select("normal,fast").unwrap_err().to_string();
        assert!(message.contains("--modes: unknown mode `fast`") && message.contains("bulk-tuned"), "{message}");
    }

    #[test]
    fn every_mode_but_the_first_is_compared() {
        for mode in &Mode::ALL[1..] {
            assert!(Mode::DIFFERENCES.iter().any(|(this, _)| this == mode));
        }
    }
}
