//! The word that the user probably meant.

/// The word that differs least from the typed one; `None` if all differ by more than a third of it.
#[must_use]
pub fn nearest<'w>(typed: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let least = words.into_iter().map(|word| (distance(typed, word), word));
    let (distance, word) = least.min_by_key(|(distance, _)| *distance)?;
    (distance <= (typed.chars().count() / 3).max(1)).then_some(word)
}

/// A question that suggests the nearest word; empty if there is none.
#[must_use]
pub fn meant<'w>(typed: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    nearest(typed, words).map_or_else(String::new, |word| format!("; did you mean {word}?"))
}

/// Edit distance: the letters to insert, remove and replace until one word is the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for (to, its) in other.iter().enumerate() {
            let replaced = corner + usize::from(letter != *its);
            corner = row[to + 1];
            row[to + 1] = replaced.min(corner + 1).min(row[to] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_different_word_is_meant() {
        let words = ["worker.gpu", "worker.group", "broker.url"];
        for (typed, meant) in [
            ("worker.gpus", Some("worker.gpu")),
            ("wroker.group", Some("worker.group")),
            ("brokerurl", Some("broker.url")),
            ("no.such", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, words), meant, "{typed}");
        }
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(meant("broker.urls", words), "; did you mean broker.url?");
        assert_eq!(meant("x", words), "");
    }
}
