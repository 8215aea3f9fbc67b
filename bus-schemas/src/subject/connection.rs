//! Names of connections.

use crate::id::{IdError, Incarnation};

/// Names of connections, as the broker's disconnect events tell them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionName {
    /// `leader-<id>`.
    Leader(crate::LeaderId),
    /// `worker-<incarnation>`.
    Worker(Incarnation),
}

impl std::fmt::Display for ConnectionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Leader(id) => write!(f, "leader-{id}"),
            Self::Worker(incarnation) => write!(f, "worker-{incarnation}"),
        }
    }
}

impl std::str::FromStr for ConnectionName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text.split_once('-') {
            Some(("leader", id)) => id.parse().map(Self::Leader),
            Some(("worker", id)) => id.parse().map(Self::Worker),
            _ => Err(IdError::NotHex(text.chars().take(40).collect())),
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::LeaderId;

    #[test]
    fn connection_names_parse_back() {
        for name in [
            ConnectionName::Leader(LeaderId(3)),
            ConnectionName::Worker(Incarnation(4)),
        ] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert!("client-x".parse::<ConnectionName>().is_err());
    }
}
