//! What every kind of forwarder is made of.

use std::sync::Arc;

use crate::experiments::forward::child::completions::Completions;
use crate::experiments::forward::child::forwarder::{Forwarder, Wire};
use crate::experiments::forward::child::pool::{Others, Pool};
use crate::experiments::forward::child::routes::Routes;
use crate::experiments::forward::child::traffic::Trace;

/// What either kind of run is made of.
pub(crate) struct Parts<P> {
    pub(crate) pool: Arc<P>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) trace: Arc<Trace>,
    pub(crate) completions: Completions,
    pub(crate) others: Others,
}

impl<P: Pool> Parts<P> {
    /// A forwarder on the wire that `wire` makes of the trace.
    pub(crate) fn forwarder<W: Wire>(self, wire: impl FnOnce(Arc<Trace>) -> W) -> Forwarder<P, W> {
        let size = self.trace.size();
        Forwarder::new(self.pool, wire(self.trace), self.routes, size, self.completions, self.others)
    }
}
