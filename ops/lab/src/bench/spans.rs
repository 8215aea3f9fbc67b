//! Receives spans as a collector does, OTLP over HTTP, and keeps of each what a measurement needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// The largest post that is taken; the exporters' are below a megabyte.
const BODY: usize = 16 << 20;

/// A span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Its trace.
    pub(super) trace: Vec<u8>,
    /// What it is about.
    pub(super) name: String,
    /// Whose it is.
    pub(super) session: String,
    /// When it began, nanoseconds since 1970.
    pub(super) start: u64,
}

/// The receiver; it serves as long as the process lives.
pub(super) struct Receiver {
    endpoint: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Receiver {
    /// Listens on a free port of this host.
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("a port for spans")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                // A sender that stops, or says what is no post, is done with.
                std::thread::spawn(move || serve(&stream, &kept));
            }
        });
        Ok(Self { endpoint, seen })
    }

    /// Its base URL.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// All spans of a session, by their start.
    pub(super) fn of(&self, session: &str) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let own = seen.iter().filter(|span| span.session == session);
        let mut own: Vec<Seen> = own.cloned().collect();
        own.sort_by_key(|span| span.start);
        own
    }
}

fn serve(stream: &TcpStream, kept: &Mutex<Vec<Seen>>) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut length = 0;
        let mut traces = false;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.starts_with("POST ") {
                traces = line.contains("/v1/traces");
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line.is_empty() {
                break;
            }
        }
        if length > BODY {
            bail!("a post of {length} bytes");
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if traces {
            let spans = spans(&body).context("the post is no list of spans")?;
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(spans);
        }
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}

/// A protobuf field's value.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a protobuf message with their numbers; `None` behind what is none.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u64, Field<'_>)>> {
    fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
        fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
            let (taken, rest) = bytes.split_at_checked(count)?;
            *bytes = rest;
            Some(taken)
        }
        fn varint(bytes: &mut &[u8]) -> Option<u64> {
            let mut value = 0;
            for shift in (0..64).step_by(7) {
                let byte = take(bytes, 1)?[0];
                value |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    return Some(value);
                }
            }
            None
        }
        let key = varint(bytes)?;
        let value = match key & 7 {
            0 => Field::Number(varint(bytes)?),
            1 => Field::Number(u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(varint(bytes)?).ok()?;
                Field::Bytes(take(bytes, length)?)
            }
            5 => {
                let word = take(bytes, 4)?.try_into().ok()?;
                Field::Number(u64::from(u32::from_le_bytes(word)))
            }
            _ => return None,
        };
        Some((key >> 3, value))
    }
    std::iter::from_fn(move || {
        let whole = !bytes.is_empty();
        whole.then(|| {
            let found = field(&mut bytes);
            if found.is_none() {
                bytes = &[];
            }
            found
        })
    })
}

/// The embedded messages with this number.
fn messages(bytes: &[u8], number: u64) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    for field in fields(bytes) {
        match field? {
            (at, Field::Bytes(bytes)) if at == number => found.push(bytes),
            _ => {}
        }
    }
    Some(found)
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(request: &[u8]) -> Option<Vec<Seen>> {
    let mut found = Vec::new();
    for resource in messages(request, 1)? {
        for scope in messages(resource, 2)? {
            for each in messages(scope, 2)? {
                found.push(span(each)?);
            }
        }
    }
    Some(found)
}

fn span(bytes: &[u8]) -> Option<Seen> {
    let mut seen = Seen::default();
    for field in fields(bytes) {
        match field? {
            (1, Field::Bytes(trace)) => seen.trace = trace.to_vec(),
            (5, Field::Bytes(name)) => seen.name = String::from_utf8(name.to_vec()).ok()?,
            (7, Field::Number(start)) => seen.start = start,
            (9, Field::Bytes(attribute)) => {
                let key = messages(attribute, 1)?;
                if key != [b"warploom.session"] {
                    continue;
                }
                for value in messages(attribute, 2)? {
                    let text = messages(value, 1)?.concat();
                    seen.session = String::from_utf8(text).ok()?;
                }
            }
            _ => {}
        }
    }
    Some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedded(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2, bytes.len() as u8];
        field.extend_from_slice(bytes);
        field
    }

    /// One span with what matters and what does not.
    fn request() -> Vec<u8> {
        let text = |text: &str| embedded(1, text.as_bytes());
        let attribute = |key: &str, value: &str| {
            let value = embedded(2, &text(value));
            embedded(9, &[text(key), value].concat())
        };
        let mut start = vec![7 << 3 | 1];
        start.extend_from_slice(&1_234_567_890_123_u64.to_le_bytes());
        let span = [
            embedded(1, &[7; 16]),
            embedded(5, b"queue"),
            vec![6 << 3, 0xac, 0x02],
            start,
            attribute("warploom.tenant", "chat"),
            attribute("warploom.session", "9f"),
        ];
        embedded(1, &embedded(2, &embedded(2, &span.concat())))
    }

    #[test]
    fn spans_are_read_and_what_is_cut_off_is_refused() {
        let bytes = request();
        let expected = Seen {
            trace: vec![7; 16],
            name: "queue".into(),
            session: "9f".into(),
            start: 1_234_567_890_123,
        };
        assert_eq!(spans(&bytes), Some(vec![expected]));
        for end in 1..bytes.len() {
            assert_eq!(spans(&bytes[..end]), None, "{end} bytes of it");
        }
    }

    #[test]
    fn what_is_posted_is_seen() {
        let receiver = Receiver::start().unwrap();
        let to = receiver.endpoint().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(to).unwrap();
        let body = request();
        for path in ["/v1/metrics", "/v1/traces"] {
            let length = body.len();
            let head = format!("POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
            let mut answer = [0; 38];
            stream.read_exact(&mut answer).unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200 "));
        }
        assert_eq!(receiver.of("9f").len(), 1);
        assert!(receiver.of("other").is_empty());
    }
}
