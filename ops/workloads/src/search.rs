//! The tenant `search`: ranks all documents for a batch of queries.
//!
//! A request gathers the embeddings of the queries' words, multiplies them with the matrix of
//! documents and turns the scores into probabilities. All probabilities are copied back and
//! compared.

use crate::compare::{matmul, read_into, to_bytes, words_to_bytes};
use crate::gpu::Launches;
use crate::{
    FunctionId, Gpu, Params, SplitMix64, Tolerance, Verification, Workload, WorkloadError, kernels,
};

const NAME: &str = "search";

/// Queries in a batch.
const QUERIES: usize = 32;
/// Words in a query.
const WORDS: usize = 8;
/// Number of words in the vocabulary.
const VOCABULARY: usize = 1024;
/// Numbers in an embedding.
const WIDTH: usize = 64;
/// Number of documents.
const DOCUMENTS: usize = 1024;
/// Batches of queries, asked in turn. The reference of each is computed once.
const BATCHES: usize = 8;
/// Spreads the scores, so that probabilities range over orders of magnitude.
const SCALE: f32 = 2.0;

/// Probabilities are around 1/1024. A score that is off by rounding changes a probability by about
/// 1e-6 of its value. The absolute part covers probabilities that are nearly 0.
const TOLERANCE: Tolerance = Tolerance {
    absolute: 1e-8,
    relative: 2e-4,
};

/// Ranking, one batch of queries per request.
pub struct Search {
    table: Vec<f32>,
    /// WIDTH x DOCUMENTS.
    documents: Vec<f32>,
    batches: Vec<Batch>,
    next: usize,
    device: Option<OnDevice>,
    answer: Vec<u8>,
    ranks: Vec<f32>,
}

/// One batch of queries; after its first request, also its reference.
struct Batch {
    words: Vec<u32>,
    expected: Option<Vec<f32>>,
}

struct OnDevice {
    gather: FunctionId,
    matmul: FunctionId,
    softmax: FunctionId,
    table: u64,
    documents: u64,
    words: u64,
    queries: u64,
    ranks: u64,
}

impl OnDevice {
    fn new<G: Gpu>(gpu: &mut G, search: &Search) -> Result<Self, G::Error> {
        let module = gpu.load(kernels::SEARCH.bytes())?;
        let device = Self {
            gather: gpu.function(module, "search_gather")?,
            matmul: gpu.function(module, "search_matmul")?,
            softmax: gpu.function(module, "search_softmax")?,
            table: gpu.alloc(4 * (VOCABULARY * WIDTH) as u64)?,
            documents: gpu.alloc(4 * (WIDTH * DOCUMENTS) as u64)?,
            words: gpu.alloc(4 * (QUERIES * WORDS) as u64)?,
            queries: gpu.alloc(4 * (QUERIES * WIDTH) as u64)?,
            ranks: gpu.alloc(4 * (QUERIES * DOCUMENTS) as u64)?,
        };
        gpu.copy_in(device.table, &to_bytes(&search.table))?;
        gpu.copy_in(device.documents, &to_bytes(&search.documents))?;
        Ok(device)
    }

    fn rank<G: Gpu>(&self, gpu: &mut G, words: &[u32], out: &mut [u8]) -> Result<u64, G::Error> {
        gpu.copy_in(self.words, &words_to_bytes(words))?;
        let mut to = Launches::on(gpu);
        let gather = Params::new()
            .address(self.words)
            .address(self.table)
            .address(self.queries);
        let gather = gather.count(WORDS).count(WIDTH);
        to.launch(self.gather, (QUERIES as u32, 1), (WIDTH as u32, 1), &gather)?;
        let matmul = Params::new().address(self.queries).address(self.documents);
        let matmul = matmul
            .address(self.ranks)
            .count(QUERIES)
            .count(DOCUMENTS)
            .count(WIDTH);
        let tiles = (DOCUMENTS.div_ceil(16) as u32, QUERIES.div_ceil(16) as u32);
        to.launch(self.matmul, tiles, (16, 16), &matmul)?;
        let softmax = Params::new()
            .address(self.ranks)
            .count(DOCUMENTS)
            .f32(SCALE);
        to.launch(self.softmax, (QUERIES as u32, 1), (256, 1), &softmax)?;
        let launches = to.count;
        gpu.copy_out(self.ranks, out)?;
        Ok(launches)
    }
}

impl Search {
    /// Documents, words and queries of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x5ea7_c400);
        let batch = |random: &mut SplitMix64| Batch {
            words: (0..QUERIES * WORDS)
                .map(|_| random.below(VOCABULARY as u32))
                .collect(),
            expected: None,
        };
        Self {
            table: random.vector(VOCABULARY * WIDTH, 1.0),
            documents: random.vector(WIDTH * DOCUMENTS, 1.0),
            batches: (0..BATCHES).map(|_| batch(&mut random)).collect(),
            next: 0,
            device: None,
            answer: vec![0; 4 * QUERIES * DOCUMENTS],
            ranks: Vec::new(),
        }
    }

    /// The probabilities of all documents for the queries in `words`.
    fn reference(table: &[f32], documents: &[f32], words: &[u32]) -> Vec<f32> {
        let mut queries = vec![0.0f32; QUERIES * WIDTH];
        for (query, words) in queries
            .chunks_exact_mut(WIDTH)
            .zip(words.chunks_exact(WORDS))
        {
            for &word in words {
                let embedding = &table[word as usize * WIDTH..][..WIDTH];
                for (sum, x) in query.iter_mut().zip(embedding) {
                    *sum += x;
                }
            }
            for sum in query {
                *sum /= WORDS as f32;
            }
        }
        let mut ranks = matmul(&queries, documents, QUERIES, DOCUMENTS, WIDTH);
        for row in ranks.chunks_exact_mut(DOCUMENTS) {
            let highest = row.iter().fold(f32::MIN, |high, x| high.max(x * SCALE));
            for x in row.iter_mut() {
                *x = (*x * SCALE - highest).exp();
            }
            // In f64, so that the sum of a thousand terms causes no difference.
            let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
            for x in row.iter_mut() {
                *x = (f64::from(*x) / sum) as f32;
            }
        }
        ranks
    }
}

impl<G: Gpu> Workload<G> for Search {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&mut self, gpu: &mut G) -> Result<(), WorkloadError<G::Error>> {
        self.next = 0;
        let failed = WorkloadError::of(NAME);
        self.device = Some(OnDevice::new(gpu, self).map_err(failed)?);
        Ok(())
    }

    fn run(&mut self, gpu: &mut G) -> Result<u64, WorkloadError<G::Error>> {
        let device = self
            .device
            .as_ref()
            .ok_or(WorkloadError::NotPrepared(NAME))?;
        let words = &self.batches[self.next].words;
        let failed = WorkloadError::of(NAME);
        device.rank(gpu, words, &mut self.answer).map_err(failed)
    }

    fn verify(&mut self) -> Verification {
        read_into(&self.answer, &mut self.ranks);
        let Batch { words, expected } = &mut self.batches[self.next];
        let expected =
            expected.get_or_insert_with(|| Self::reference(&self.table, &self.documents, words));
        let what = format!("probabilities of batch {}", self.next);
        let difference = TOLERANCE.difference(&what, &self.ranks, expected);
        self.next = (self.next + 1) % BATCHES;
        Verification::from_difference(difference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(search: &Search, batch: usize) -> Vec<f32> {
        Search::reference(
            &search.table,
            &search.documents,
            &search.batches[batch].words,
        )
    }

    fn verification(search: &mut Search) -> Verification {
        Workload::<crate::gpu::tests::NoGpu>::verify(search)
    }

    #[test]
    fn probabilities_add_up_and_spread() {
        let ranks = expected(&Search::new(4), 0);
        for row in ranks.chunks_exact(DOCUMENTS) {
            let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
            assert!((sum - 1.0).abs() < 1e-5, "{sum}");
            let highest = row.iter().copied().fold(0.0, f32::max);
            assert!(highest > 10.0 / DOCUMENTS as f32, "{highest}");
        }
    }

    #[test]
    fn batches_are_compared_in_turn_and_in_full() {
        let mut search = Search::new(4);
        for round in 0..2 * BATCHES {
            search.answer = to_bytes(&expected(&search, round % BATCHES));
            assert!(verification(&mut search).verified);
        }
        // The answer of another batch is wrong, and so is any single changed value.
        search.answer = to_bytes(&expected(&search, 1));
        assert!(!verification(&mut search).verified);
        for at in [0, 12_345, QUERIES * DOCUMENTS - 1] {
            let mut ranks = expected(&search, search.next);
            ranks[at] *= 1.001;
            search.answer = to_bytes(&ranks);
            let verification = verification(&mut search);
            assert!(!verification.verified && verification.detail.is_some());
        }
    }
}
