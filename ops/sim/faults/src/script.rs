//! Scripts: scenes as text, to be read, changed and played again.

use serde::{Deserialize, Serialize};

use crate::mutants::Mutant;
use crate::scene::Scene;

/// Version of the format; other versions are refused.
const FORMAT: u32 = 1;

/// A scene as stored in a file. The README has an example and all words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    format: u32,
    /// The invariant that the run broke when the script was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaks: Option<String>,
    /// Kind of the mutants among the nodes; only scripts that show that a check can fail have one.
    #[serde(rename = "flaw", default, skip_serializing_if = "Option::is_none")]
    pub mutant: Option<Mutant>,
    /// The scene, with everything else.
    pub scene: Scene,
}

/// An invalid script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// It cannot be read.
    #[error("{0}")]
    Text(String),
    /// It is of another format.
    #[error("the script's format is {0}; this program knows format {FORMAT}")]
    Format(u32),
    /// It cannot be played.
    #[error("{0}")]
    Senseless(&'static str),
}

impl Script {
    /// Makes the script of a scene, with the invariant that it broke.
    #[must_use]
    pub fn new(scene: Scene, mutant: Option<Mutant>, broken: Option<&str>) -> Self {
        Self {
            format: FORMAT,
            breaks: broken.map(str::to_owned),
            mutant,
            scene,
        }
    }

    /// Reads a script.
    ///
    /// # Errors
    /// If the text is no script, or the scene cannot be played.
    pub fn read(text: &str) -> Result<Self, ScriptError> {
        let script: Self =
            toml::from_str(text).map_err(|error| ScriptError::Text(error.to_string()))?;
        if script.format != FORMAT {
            return Err(ScriptError::Format(script.format));
        }
        script.scene.sense().map_err(ScriptError::Senseless)?;
        Ok(script)
    }

    /// Formats the script as text; [`Script::read`] returns the same script again.
    ///
    /// # Errors
    /// If a number is too large for the format: seeds from 2^63 on.
    pub fn text(&self) -> Result<String, ScriptError> {
        toml::to_string(self).map_err(|error| ScriptError::Text(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_reads_back_as_it_was() {
        for seed in 1..=40 {
            let script = Script::new(Scene::draw(seed, None), Some(Mutant::RunsTwice), None);
            let text = script.text().unwrap();
            assert_eq!(Script::read(&text).unwrap(), script, "{text}");
        }
    }

    #[test]
    fn a_script_from_before_groups_and_several_devices_is_read_and_played() {
        let text = r#"
            format = 1
            [scene]
            seed = 20001
            quiet = "1ms"
            capacity = 1073741824
            [scene.settings]
            window_ns = 2000000
            [[scene.tenant]]
            name = "tenant-0"
            priority = 2
            weight = 1
            quota = 0
            sessions = 0
            outstanding_ns = 0
            [[scene.leader]]
            number = 0
            start = "0ms"
            [[scene.worker]]
            number = 0
            start = "0ms"
            [[scene.client]]
            number = 0
            tenant = "tenant-0"
            start = "0ms"
            [[scene.client.session]]
            number = 0
            start = "0ms"
            conduct = "honest"
            steps = ["load 0 1", "launch 1 1 0 0", "sync", "wait", "close"]
        "#;
        let script = Script::read(text).unwrap();
        let counts = crate::play(&script.scene, &crate::Options::default())
            .unwrap()
            .counts;
        assert_eq!((counts.ops, counts.ended, counts.several), (3, 1, 0));
        let wide = text.replacen("conduct =", "devices = 2\nconduct =", 1);
        let joined = r#"
            [[scene.worker]]
            number = 4
            start = "900ms"
            group = "batch"
            [[scene.client]]
        "#;
        let wide = wide.replacen("[[scene.client]]", joined, 1);
        let script = Script::read(&wide).unwrap();
        let counts = crate::play(&script.scene, &crate::Options::default())
            .unwrap()
            .counts;
        assert_eq!((counts.ops, counts.ended, counts.several), (6, 2, 1));
        assert!(counts.declined > 0, "it waited for the second worker");
    }

    #[test]
    fn senseless_scripts_are_refused() {
        let text = Script::new(Scene::draw(1, None), None, None)
            .text()
            .unwrap();
        let other = text.replacen("format = 1", "format = 2", 1);
        assert_eq!(Script::read(&other), Err(ScriptError::Format(2)));
        let mut empty = Script::new(Scene::draw(1, None), None, None);
        empty.scene.leaders.clear();
        let refused = Script::read(&empty.text().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("leader"), "{refused}");
        assert!(Script::read(&text.replacen("[scene]", "[scene]\nspeed = 1", 1)).is_err());
        let drain = r#"
            [[scene.fault]]
            at = "1ms"
            kind = "drain"
            node = "leader 0"
            time = "1ms"
            [[scene.client]]
        "#;
        let drained = text.replacen("[[scene.client]]", drain, 1);
        let refused = Script::read(&drained).unwrap_err();
        assert!(refused.to_string().contains("drained"), "{refused}");
        let none = text.replacen("steps = ", "devices = 0\nsteps = ", 1);
        let refused = Script::read(&none).unwrap_err();
        assert!(refused.to_string().contains("devices"), "{refused}");
    }
}
