//! Three network namespaces in a row, joined by two veth pairs:
//!
//! ```text
//!  source: gen0 ──── left :forwarder: right ──── sink0 :sink
//! ```
//!
//! No namespace has a name or a process of its own: each is held by a descriptor, and by the
//! sockets in it, of this one process. When that ends, in whatever way, the kernel closes them and
//! removes namespaces and devices; there is nothing to clean up and nothing that can be left
//! behind. In the namespace of the machine nothing is ever created.
//!
//! Where the process may not make a network namespace it tries with a user namespace of its own, as
//! an ordinary user may on many systems.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::experiments::forward::child::sockets::PacketSocket;

/// Set by tests: the step that fails instead of being done.
const FAIL_AT: &str = "ASHLAR_FORWARD_FAIL_AT";

/// What has to be done, in this order.
#[derive(Clone, Copy, Debug)]
enum Step {
    Source,
    Sink,
    Forwarder,
    Left,
    Right,
    Up,
    Sockets,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Source => "source-namespace",
            Self::Sink => "sink-namespace",
            Self::Forwarder => "forwarder-namespace",
            Self::Left => "left-link",
            Self::Right => "right-link",
            Self::Up => "links-up",
            Self::Sockets => "sockets",
        }
    }

    /// Does `work`, and says what to do about it if it fails.
    fn run<T>(self, work: impl FnOnce() -> io::Result<T>) -> Result<T, String> {
        let injected = std::env::var(FAIL_AT).is_ok_and(|step| step == self.name());
        let outcome = if injected { Err(io::Error::other("a failure that was asked for")) } else { work() };
        outcome.map_err(|error| format!("--veth: {}: {error}{}", self.name(), self.advice(&error)))
    }

    fn advice(self, error: &io::Error) -> &'static str {
        let refused = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
        match (self, error.raw_os_error()) {
            _ if refused => {
                "; expected to run as root (CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_NET_RAW) or on a system that lets users \
                 make user namespaces. Without --veth forwarding stays in memory and needs no right"
            }
            (Self::Source | Self::Sink | Self::Forwarder, Some(libc::ENOSPC)) => {
                "; the limit user.max_net_namespaces is reached"
            }
            (Self::Source | Self::Sink | Self::Forwarder, Some(libc::EINVAL | libc::ENOSYS)) => {
                "; expected a kernel with network namespaces (CONFIG_NET_NS)"
            }
            (Self::Left | Self::Right, Some(libc::EOPNOTSUPP | libc::ENODEV)) => {
                "; expected a kernel with veth devices (CONFIG_VETH, or the module veth loaded)"
            }
            (Self::Sockets, Some(libc::EAFNOSUPPORT)) => "; expected a kernel with packet sockets (CONFIG_PACKET)",
            _ => "",
        }
    }
}

/// The sockets at both ends and at both sides of the forwarder.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) generator: PacketSocket,
    pub(crate) left: PacketSocket,
    pub(crate) right: PacketSocket,
    pub(crate) sink: PacketSocket,
}

impl Network {
    /// Builds all of it; this thread is then in the forwarder's namespace.
    ///
    /// # Errors
    /// Which step failed, why, and what was expected. What had been built is gone when the process
    /// ends.
    pub(crate) fn build() -> Result<Self, String> {
        let source = Step::Source.run(first_namespace)?;
        let sink = Step::Sink.run(new_namespace)?;
        let own = Step::Forwarder.run(new_namespace)?;
        Step::Left.run(|| add_pair("left", "gen0", &source))?;
        Step::Right.run(|| add_pair("right", "sink0", &sink))?;
        Step::Up.run(|| {
            for name in ["left", "right"] {
                set_up(name)?;
            }
            for (namespace, name) in [(&source, "gen0"), (&sink, "sink0")] {
                enter(namespace)?;
                set_up(name)?;
            }
            enter(&own)
        })?;
        Step::Sockets.run(|| {
            let left = PacketSocket::receiver(index("left")?)?;
            let right = PacketSocket::sender(index("right")?)?;
            enter(&source)?;
            let generator = PacketSocket::sender(index("gen0")?)?;
            enter(&sink)?;
            let sink = PacketSocket::receiver(index("sink0")?)?;
            enter(&own)?;
            Ok(Self { generator, left, right, sink })
        })
    }
}

/// The namespace that this thread is in.
fn current() -> io::Result<OwnedFd> {
    File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes flags only. No memory of this process changes, and its open files stay
    // open.
    match unsafe { libc::unshare(flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The first one: who may not make it tries as the root of a user namespace of its own.
fn first_namespace() -> io::Result<OwnedFd> {
    unshare(libc::CLONE_NEWNET).or_else(|error| match error.raw_os_error() {
        Some(libc::EPERM) => unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET).map_err(|_| error),
        _ => Err(error),
    })?;
    current()
}

fn new_namespace() -> io::Result<OwnedFd> {
    unshare(libc::CLONE_NEWNET)?;
    current()
}

fn enter(namespace: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes a descriptor that is open, and flags.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Adds a veth pair: `name` here, `peer` in `namespace`.
fn add_pair(name: &str, peer: &str, namespace: &OwnedFd) -> io::Result<()> {
    let mut other = LinkMessage::default();
    other.attributes = vec![LinkAttribute::IfName(peer.to_owned()), LinkAttribute::NetNsFd(namespace.as_raw_fd())];
    let mut link = LinkMessage::default();
    link.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]),
    ];
    ask(RouteNetlinkMessage::NewLink(link), NLM_F_CREATE | NLM_F_EXCL)
}

/// Switches a device of this thread's namespace on.
fn set_up(name: &str) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index(name)?;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    ask(RouteNetlinkMessage::SetLink(link), 0)
}

/// Number of a device of this thread's namespace.
fn index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: the name is a string that ends with a zero byte.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Asks the kernel for a change of this thread's namespace, and waits for its answer.
fn ask(message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
        .map_err(|error| io::Error::other(format!("the kernel's answer cannot be read: {error}")))?;
    match answer.payload {
        // An acknowledgement is an error without a code.
        NetlinkPayload::Error(error) => error.code.map_or(Ok(()), |_| Err(error.to_io())),
        other => Err(io::Error::other(format!("the kernel answered with something else: {other:?}"))),
    }
}
