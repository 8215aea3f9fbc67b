//! The words of scripts: times, nodes, conducts and steps. Each is a short text from which the same value
//! can be read back.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use sim_cluster::{Nanos, time_text};

use crate::faults::Target;
use crate::program::{Conduct, Step};

/// A text that is not such a word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}")]
pub(crate) struct NoWord {
    text: String,
    what: &'static str,
}

fn none<T>(text: &str, what: &'static str) -> Result<T, NoWord> {
    let text = text.to_owned();
    Err(NoWord { text, what })
}

impl Display for Target {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leading => to.write_str("leading"),
            Self::Leader(number) => write!(to, "leader {number}"),
            Self::Worker(number) => write!(to, "worker {number}"),
            Self::Client(number) => write!(to, "client {number}"),
        }
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

impl TryFrom<String> for Target {
    type Error = NoWord;

    fn try_from(text: String) -> Result<Self, NoWord> {
        let mut words = text.split_whitespace();
        let (role, number) = (words.next(), words.next());
        let number = number.map_or(Some(0), |number| number.parse().ok());
        match (role, number) {
            (Some("leading"), _) => Ok(Self::Leading),
            (Some("leader"), Some(number)) => Ok(Self::Leader(number)),
            (Some("worker"), Some(number)) => Ok(Self::Worker(number)),
            (Some("client"), Some(number)) => Ok(Self::Client(number)),
            _ => none(&text, "node"),
        }
    }
}

impl From<Conduct> for String {
    fn from(conduct: Conduct) -> Self {
        match conduct {
            Conduct::Honest => "honest".to_owned(),
            Conduct::Faulty => "faulty".to_owned(),
            Conduct::Liar(from) => format!("lies from {from}"),
            Conduct::Mute(from) => format!("mute from {from}"),
            Conduct::Trespasser => "trespasser".to_owned(),
        }
    }
}

impl TryFrom<String> for Conduct {
    type Error = NoWord;

    fn try_from(text: String) -> Result<Self, NoWord> {
        let (word, from) = text.split_once(" from ").unwrap_or((&text, "1"));
        match (word, from.parse()) {
            ("honest", _) => Ok(Self::Honest),
            ("faulty", _) => Ok(Self::Faulty),
            ("trespasser", _) => Ok(Self::Trespasser),
            ("lies", Ok(from)) => Ok(Self::Liar(from)),
            ("mute", Ok(from)) => Ok(Self::Mute(from)),
            _ => none(&text, "conduct"),
        }
    }
}

impl From<Step> for String {
    fn from(step: Step) -> Self {
        match step {
            Step::Launch {
                function,
                grid,
                stream,
                fill,
            } => format!("launch {function} {grid} {stream} {fill}"),
            Step::CopyIn {
                bytes,
                fill,
                stream,
            } => format!("copy-in {bytes} {fill} {stream}"),
            Step::Set {
                count,
                value,
                stream,
            } => format!("set {count} {value} {stream}"),
            Step::Event { event, stream } => format!("event {event} {stream}"),
            Step::Copy { bytes, stream } => format!("copy {bytes} {stream}"),
            Step::Read(bytes) => format!("read {bytes}"),
            Step::Sync => "sync".to_owned(),
            Step::Alloc(bytes) => format!("alloc {bytes}"),
            Step::Free => "free".to_owned(),
            Step::Trespass { write, next } => {
                let what = if write { "write" } else { "read" };
                let place = if next { "next" } else { "before" };
                format!("trespass {what} {place}")
            }
            Step::Staged(bytes) => format!("staged {bytes}"),
            Step::Offered { content, bytes } => format!("offered {content} {bytes}"),
            Step::Export(key) => format!("export {key}"),
            Step::Import(key) => format!("import {key}"),
            Step::Peek => "peek".to_owned(),
            Step::GiveBack => "give-back".to_owned(),
            Step::Load { slot, bytes } => format!("load {slot} {bytes}"),
            Step::Wait => "wait".to_owned(),
            Step::Think(time) => format!("think {}", time_text::text(time)),
            Step::Close => "close".to_owned(),
        }
    }
}

/// A step's words, one after the other.
struct Words<'a> {
    text: &'a str,
    left: std::str::SplitWhitespace<'a>,
}

impl Words<'_> {
    fn number<T: FromStr>(&mut self) -> Result<T, NoWord> {
        let number = self.left.next().and_then(|word| word.parse().ok());
        number.map_or_else(|| none(self.text, "step"), Ok)
    }

    fn time(&mut self) -> Result<Nanos, NoWord> {
        let time = time_text::time(self.left.next().unwrap_or_default());
        time.or_else(|_| none(self.text, "step"))
    }
}

impl TryFrom<String> for Step {
    type Error = NoWord;

    fn try_from(text: String) -> Result<Self, NoWord> {
        let left = text.split_whitespace();
        let mut words = Words { text: &text, left };
        let step = match words.left.next().unwrap_or_default() {
            "launch" => Self::Launch {
                function: words.number()?,
                grid: words.number()?,
                stream: words.number()?,
                fill: words.number()?,
            },
            "copy-in" => Self::CopyIn {
                bytes: words.number()?,
                fill: words.number()?,
                stream: words.number()?,
            },
            "set" => Self::Set {
                count: words.number()?,
                value: words.number()?,
                stream: words.number()?,
            },
            "event" => Self::Event {
                event: words.number()?,
                stream: words.number()?,
            },
            "copy" => Self::Copy {
                bytes: words.number()?,
                stream: words.number()?,
            },
            "read" => Self::Read(words.number()?),
            "sync" => Self::Sync,
            "alloc" => Self::Alloc(words.number()?),
            "free" => Self::Free,
            "trespass" => {
                let (what, place) = (words.left.next(), words.left.next());
                let write = match what {
                    Some("write") => true,
                    Some("read") => false,
                    _ => return none(&text, "step"),
                };
                let next = match place {
                    Some("next") => true,
                    Some("before") => false,
                    _ => return none(&text, "step"),
                };
                Self::Trespass { write, next }
            }
            "staged" => Self::Staged(words.number()?),
            "offered" => Self::Offered {
                content: words.number()?,
                bytes: words.number()?,
            },
            "export" => Self::Export(words.number()?),
            "import" => Self::Import(words.number()?),
            "peek" => Self::Peek,
            "give-back" => Self::GiveBack,
            "load" => Self::Load {
                slot: words.number()?,
                bytes: words.number()?,
            },
            "wait" => Self::Wait,
            "think" => Self::Think(words.time()?),
            "close" => Self::Close,
            _ => return none(&text, "step"),
        };
        match words.left.next() {
            None => Ok(step),
            Some(_) => none(&text, "step"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_step_is_refused_with_its_text() {
        for wrong in ["", "jump 1", "launch 1 2 3", "sync now", "copy-in -1 0 0"] {
            let refused = Step::try_from(wrong.to_owned()).unwrap_err();
            assert!(refused.to_string().contains(wrong));
        }
        assert!(Target::try_from("worker two".to_owned()).is_err());
        assert!(Conduct::try_from("lies".to_owned()).is_ok());
    }
}
