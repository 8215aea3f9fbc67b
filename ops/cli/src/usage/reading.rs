//! The usage blocks, read from the stream while a leader may be folding them.

use std::time::Duration;

use actors::storage::Stored;
use anyhow::Result;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream::Stream;
use bus_schemas::{Failure, Folded, UsageBlock, decode};

use super::{Books, Query};
use crate::admin::{Administrator, Kept, StoredMessages};

/// How much later than it was cut a block may have come into the stream, milliseconds: a broker can be
/// away, and clocks differ.
const LATE_MS: u64 = 3_600_000;
/// How often the usage blocks are read at most, where they are folded meanwhile.
const READS: u32 = 5;
/// What errors are of.
const KEPT: Kept = Kept {
    what: "the usage blocks",
    code: "E-ACCOUNTS",
};

/// Books as they are read: what was folded first, then everything else.
struct Reading {
    books: Books,
    folded: Folded,
    /// Blocks were folded since.
    news: bool,
}

impl Reading {
    fn new(query: Query, folded: Folded) -> Self {
        let mut books = Books::new(query);
        folded.blocks().for_each(|block| books.take(block));
        Self {
            books,
            folded,
            news: false,
        }
    }

    fn take(&mut self, block: &UsageBlock) {
        if !self.folded.covers(block) {
            self.news |= block.first.is_some();
            self.books.take(block);
        }
    }

    /// Nothing where blocks were folded after what was folded had been read: what they stand for may
    /// be in the books twice.
    fn finish(self) -> Option<Books> {
        (!self.news).then_some(self.books)
    }
}

impl Administrator {
    /// Reads the usage blocks.
    ///
    /// # Errors
    /// [`crate::exit::Unreachable`] without a broker; where a block cannot be read.
    pub async fn books(&self, query: Query) -> Result<Books> {
        let Some(stream) = self.stream(Stored::Usage, KEPT).await? else {
            // No worker was ever there.
            return Ok(Books::new(query));
        };
        // A leader that folds meanwhile writes first and removes then: what it removed before it could
        // be read is in what it wrote.
        for _ in 0..READS {
            if let Some(books) = self.read(&stream, query.clone()).await? {
                return Ok(books);
            }
        }
        anyhow::bail!(
            "E-ACCOUNTS: the usage blocks are folded while they are read; read them again"
        )
    }

    /// Reads the usage blocks once; `None` where blocks were folded meanwhile.
    async fn read(&self, stream: &Stream, query: Query) -> Result<Option<Books>> {
        let mut folded = Folded::default();
        let days = self.subjects().usage_days();
        self.blocks(stream, DeliverPolicy::All, days, |block| folded.take(block))
            .await?;
        let created = stream.cached_info().created;
        let made = u64::try_from(created.unix_timestamp_nanos() / 1_000_000).unwrap_or(0);
        let since = query.since.unwrap_or(0).saturating_sub(LATE_MS);
        let policy = match since.checked_sub(made) {
            Some(later) if later > 0 => DeliverPolicy::ByStartTime {
                start_time: created + Duration::from_millis(later),
            },
            _ => DeliverPolicy::All,
        };
        let mut reading = Reading::new(query, folded);
        self.blocks(stream, policy, String::new(), |block| reading.take(&block))
            .await?;
        Ok(reading.finish())
    }

    /// Reads blocks, of one subject or all, up to the last there is.
    async fn blocks(
        &self,
        stream: &Stream,
        deliver_policy: DeliverPolicy,
        filter_subject: String,
        mut take: impl FnMut(UsageBlock),
    ) -> Result<()> {
        let config = pull::OrderedConfig {
            deliver_policy,
            filter_subject,
            ..Default::default()
        };
        let mut messages = StoredMessages::open(self, stream.clone(), config, KEPT).await?;
        while let Some(message) = messages.next().await? {
            let block = decode::<UsageBlock>(&message.payload).map_err(|error| {
                let failure = Failure::from(error);
                anyhow::anyhow!("E-ACCOUNTS: {}: {failure}", message.subject)
            })?;
            take(block);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Fold, UseTotals};

    use super::super::tests::block;
    use super::*;

    /// Three blocks of a worker, and the one that stands for the first two.
    fn blocks() -> ([UsageBlock; 3], UsageBlock) {
        let rows = [("a", 7, 2, 500)];
        let first = block(1, 1, 10, UseTotals::default(), &rows);
        let second = block(1, 2, 20, first.totals, &rows);
        let third = block(1, 3, 30, second.totals, &rows);
        let mut fold = Fold::default();
        fold.add(first.clone());
        fold.add(second.clone());
        let day = fold.finish().remove(0);
        ([first, second, third], day)
    }

    fn read<'a>(
        folded: Option<&UsageBlock>,
        blocks: impl IntoIterator<Item = &'a UsageBlock>,
    ) -> Option<u64> {
        let mut before = Folded::default();
        folded.cloned().into_iter().for_each(|day| before.take(day));
        let mut reading = Reading::new(Query::default(), before);
        blocks.into_iter().for_each(|block| reading.take(block));
        reading.finish().map(|books| books.all.launches)
    }

    #[test]
    fn what_is_folded_while_it_is_read_is_read_again() {
        let ([first, second, third], day) = blocks();
        // Nothing is folded yet, or all that stands for it was there from the first.
        assert_eq!(read(None, [&first, &second, &third]), Some(6));
        assert_eq!(read(Some(&day), [&first, &second, &third, &day]), Some(6));
        assert_eq!(read(Some(&day), [&third, &day]), Some(6));
        // Folded between the two: beside all it stands for, some of it, or none of it.
        assert_eq!(read(None, [&first, &second, &third, &day]), None);
        assert_eq!(read(None, [&second, &third, &day]), None);
        assert_eq!(read(None, [&third, &day]), None);
    }
}
