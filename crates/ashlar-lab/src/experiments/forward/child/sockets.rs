//! Packet sockets (packet(7)) that send and receive many frames with one system call.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Room for frames that wait in a socket: those of a burst, each with what the kernel keeps beside
/// it.
const BUFFER: libc::c_int = 16 << 20;

/// Bytes of a waiting frame beside twice its size: its `sk_buff` and what is rounded up,
/// generously.
const BESIDE: usize = 1280;

fn set(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads an integer of the length that it is told.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A packet socket on one device.
#[derive(Debug)]
pub(crate) struct PacketSocket(OwnedFd);

/// Where frames lie, for one system call.
#[derive(Debug)]
pub(crate) struct Batch {
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers are written before each call and not used after it; no code follows them in
// between.
unsafe impl Send for Batch {}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { vectors: Vec::new(), headers: Vec::new() }
    }

    /// Points the batch to these frames.
    fn aim(&mut self, frames: impl Iterator<Item = (*mut u8, usize)>) {
        self.vectors.clear();
        self.vectors.extend(frames.map(|(base, length)| libc::iovec { iov_base: base.cast(), iov_len: length }));
        self.headers.clear();
        for vector in &mut self.vectors {
            // SAFETY: a header of integers and pointers, for which all bits zero is a value: no
            // address, no control data.
            let mut header: libc::mmsghdr = unsafe { core::mem::zeroed() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            self.headers.push(header);
        }
    }
}

impl PacketSocket {
    /// A socket that sends through the device and receives nothing.
    pub(crate) fn sender(device: u32) -> io::Result<Self> {
        Self::open(device, 0)
    }

    /// A socket that gets all IPv4 frames that come in through the device.
    pub(crate) fn receiver(device: u32) -> io::Result<Self> {
        Self::open(device, libc::ETH_P_IP as u16)
    }

    fn open(device: u32, protocol: u16) -> io::Result<Self> {
        // Protocol 0: nothing is received before the socket is bound to its device.
        // SAFETY: takes numbers, touches no memory.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was opened just above, and no other code has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        for (forced, asked) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
            // Root of the machine gets what it wants, others at most what the system's limit
            // allows.
            set(&fd, libc::SOL_SOCKET, forced, BUFFER).or_else(|_| set(&fd, libc::SOL_SOCKET, asked, BUFFER))?;
        }
        // Past the queueing discipline, which swallows frames without a word until the kernel's own
        // thread has seen that the link is up.
        set(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        // SAFETY: an address of integers, for which all bits zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = device as i32;
        // SAFETY: the kernel reads an address of the length that it is told.
        let rc = unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(fd))
    }

    /// Frames of `size` bytes that may wait in the socket: each counts with what the kernel keeps
    /// beside it.
    pub(crate) fn room(&self, size: usize) -> io::Result<usize> {
        let mut bytes: libc::c_int = 0;
        let mut length = size_of_val(&bytes) as libc::socklen_t;
        // SAFETY: the kernel writes an integer, of the length that it is told, to `bytes`.
        let rc = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUF,
                (&raw mut bytes).cast(),
                &raw mut length,
            )
        };
        match rc {
            0 => Ok(bytes as usize / (BESIDE + 2 * size)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sends frames; how many the kernel took, none when it cannot take more now.
    ///
    /// # Safety
    /// Each pointer is that of as many initialised bytes as it says.
    pub(crate) unsafe fn send(
        &self,
        batch: &mut Batch,
        frames: impl Iterator<Item = (*mut u8, usize)>,
    ) -> io::Result<usize> {
        batch.aim(frames);
        let count = batch.headers.len() as libc::c_uint;
        // SAFETY: `headers` are as many as the kernel is told, their vectors are in `vectors`, and
        // the frames are readable by the contract of this function.
        let sent = unsafe { libc::sendmmsg(self.0.as_raw_fd(), batch.headers.as_mut_ptr(), count, 0) };
        Self::outcome(sent)
    }

    /// Receives frames into buffers; how many came. `length(place, bytes)` is told the length of
    /// each.
    ///
    /// # Safety
    /// Each pointer is that of as many writable bytes as it says, which no other code uses.
    pub(crate) unsafe fn receive(
        &self,
        batch: &mut Batch,
        buffers: impl Iterator<Item = (*mut u8, usize)>,
        mut length: impl FnMut(usize, usize),
    ) -> io::Result<usize> {
        batch.aim(buffers);
        let count = batch.headers.len() as libc::c_uint;
        // SAFETY: as in `send`, and the buffers are writable by the contract of this function.
        let came =
            unsafe { libc::recvmmsg(self.0.as_raw_fd(), batch.headers.as_mut_ptr(), count, 0, core::ptr::null_mut()) };
        let came = Self::outcome(came)?;
        for (place, header) in batch.headers[..came].iter().enumerate() {
            length(place, header.msg_len as usize);
        }
        Ok(came)
    }

    /// None instead of the error that says "not now".
    fn outcome(rc: libc::c_int) -> io::Result<usize> {
        match usize::try_from(rc) {
            Ok(count) => Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR)) => Ok(0),
                error => Err(error),
            },
        }
    }
}
