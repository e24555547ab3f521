//! A measured process and the two ends of its pipes: it is asked, and answers, one JSON object on a
//! line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The process. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct Pipe {
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Pipe {
    pub(crate) fn open(mut command: Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the child: {error}"))?;
        let requests = child.stdin.take();
        let Some(replies) = child.stdout.take().map(BufReader::new) else {
            return Err("the child has no output".to_owned());
        };
        Ok(Self { child, requests, replies })
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask<Q: Serialize, R: DeserializeOwned>(&mut self, request: &Q) -> Result<R, String> {
        let line = serde_json::to_string(request).map_err(|error| error.to_string())?;
        let sent = self.requests.as_mut().map(|pipe| writeln!(pipe, "{line}").and_then(|()| pipe.flush()));
        let mut answer = String::new();
        let got = self.replies.read_line(&mut answer);
        match (sent, got) {
            (Some(Ok(())), Ok(length)) if length > 0 => serde_json::from_str(&answer)
                .map_err(|error| format!("cannot read the child's answer `{}`: {error}", answer.trim())),
            _ => Err(match self.child.wait() {
                Ok(status) => format!("the child ended: {status}"),
                Err(error) => format!("the child ended: {error}"),
            }),
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // The end of its input is the child's sign to leave.
        self.requests = None;
        let _ = self.child.wait();
    }
}
