//! Reads the usage blocks from the stream while a leader may be folding them.

use std::time::Duration;

use anyhow::Result;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream::Stream;
use bus_schemas::{Failure, Folded, UsageBlock, decode};
use storage::Stored;

use super::{Books, Query};
use crate::administrator::{Administrator, Kept, StoredMessages};
use crate::errors::ErrorCode;

/// Maximum delay in milliseconds between the cutting of a block and its arrival in the stream: a
/// broker can be unavailable, and clocks differ.
const LATE_MS: u64 = 3_600_000;
/// Maximum number of reads of the usage blocks if they are folded in the meantime.
const READS: u32 = 5;
/// The stored data that errors name.
const KEPT: Kept = Kept {
    what: "the usage blocks",
    code: ErrorCode::Accounts,
};

/// Books during reading: first the folded blocks, then all others.
struct Reading {
    books: Books,
    folded: Folded,
    /// True if blocks were folded after the folded ones had been read.
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

    /// `None` if blocks were folded after the folded ones had been read: their contents may be in
    /// the books twice.
    fn finish(self) -> Option<Books> {
        (!self.news).then_some(self.books)
    }
}

impl Administrator {
    /// Reads the usage blocks.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] without a broker; an error if a block cannot be read.
    pub async fn books(&self, query: Query) -> Result<Books> {
        let Some(stream) = self.stream(Stored::Usage, KEPT).await? else {
            // There never was a worker.
            return Ok(Books::new(query));
        };
        // A leader that folds in the meantime first writes, then removes. The removed blocks that
        // could not be read are in the written one.
        for _ in 0..READS {
            if let Some(books) = self.read(&stream, query.clone()).await? {
                return Ok(books);
            }
        }
        anyhow::bail!(
            ErrorCode::Accounts
                .failed("the usage blocks are folded while they are read; read them again")
        )
    }

    /// Reads the usage blocks once; `None` if blocks were folded in the meantime.
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

    /// Reads blocks, of one subject or of all, up to the last.
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
                anyhow::anyhow!(
                    ErrorCode::Accounts.failed(format!("{}: {failure}", message.subject))
                )
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

    /// Three blocks of a worker, and the folded block of the first two.
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
        // Nothing is folded yet, or the folded block was there from the start.
        assert_eq!(read(None, [&first, &second, &third]), Some(6));
        assert_eq!(read(Some(&day), [&first, &second, &third, &day]), Some(6));
        assert_eq!(read(Some(&day), [&third, &day]), Some(6));
        // Folded between the two reads: the second read finds all of the folded blocks, some, or
        // none.
        assert_eq!(read(None, [&first, &second, &third, &day]), None);
        assert_eq!(read(None, [&second, &third, &day]), None);
        assert_eq!(read(None, [&third, &day]), None);
    }
}
