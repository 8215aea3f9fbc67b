//! Tools, generated from the interface's document: one for each operation.

use axum::http::Method;
use serde_json::{Map, Value, json};

/// Maximum depth of a resolved schema.
const DEPTH: usize = 8;

/// A tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tool {
    /// Its name: the operation's id in the document.
    pub(super) name: String,
    /// The operation that the role must allow.
    pub(super) operation: String,
    /// Its method.
    pub(super) method: Method,
    path: String,
    description: String,
    /// Names of the parameters in the path and in the query.
    in_path: Vec<String>,
    in_query: Vec<String>,
    has_body: bool,
    schema: Value,
}

/// The tools of a document: those that read, and with `changes` also those that change something.
/// Streams and files are no tools.
pub(super) fn of(document: &Value, changes: bool) -> Vec<Tool> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| (path, method, operation))
    });
    let tools = operations.filter_map(|(path, method, operation)| {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).ok()?;
        tool(document, path, method, operation)
    });
    tools
        .filter(|tool| changes || tool.method == Method::GET)
        .collect()
}

fn tool(document: &Value, path: &str, method: Method, operation: &Value) -> Option<Tool> {
    let needed = operation["x-operation"]
        .as_str()
        .filter(|it| *it != "public")?;
    let contents = operation["responses"].as_object()?.iter();
    let contents = contents
        .filter(|(status, _)| status.starts_with('2'))
        .filter_map(|(_, response)| response["content"].as_object());
    let kinds: Vec<&String> = contents.flat_map(|content| content.keys()).collect();
    let body = &operation["requestBody"]["content"];
    let files = kinds.iter().any(|kind| *kind != "application/json");
    if files
        || (body.is_object() && body["application/json"].is_null())
        || path.ends_with("/logout")
    {
        return None;
    }
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let (mut in_path, mut in_query) = (Vec::new(), Vec::new());
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str()?.to_owned();
        match parameter["in"].as_str() {
            Some("path") => in_path.push(name.clone()),
            Some("query") => in_query.push(name.clone()),
            _ => continue,
        }
        let mut schema = resolved(document, &parameter["schema"], DEPTH);
        schema["description"] = parameter["description"].clone();
        properties.insert(name.clone(), schema);
        if parameter["required"] == true {
            required.push(Value::from(name));
        }
    }
    let has_body = body.is_object();
    if has_body {
        let schema = resolved(document, &body["application/json"]["schema"], DEPTH);
        properties.insert("body".into(), schema);
        required.push("body".into());
    }
    Some(Tool {
        name: operation["operationId"].as_str()?.into(),
        operation: needed.into(),
        method,
        path: path.into(),
        description: operation["summary"].as_str().unwrap_or_default().into(),
        in_path,
        in_query,
        has_body,
        schema: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
    })
}

/// Resolves the references of a schema.
fn resolved(document: &Value, schema: &Value, depth: usize) -> Value {
    if depth == 0 {
        return json!({});
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#'));
        return resolved(document, target.unwrap_or(&Value::Null), depth - 1);
    }
    match schema {
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields =
                fields.map(|(key, value)| (key.clone(), resolved(document, value, depth - 1)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => {
            let items = items.iter();
            items
                .map(|item| resolved(document, item, depth - 1))
                .collect()
        }
        other => other.clone(),
    }
}

/// Encodes a value as a part of a path or a query.
fn encoded(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let part = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(part).collect()
}

impl Tool {
    /// The tool's entry in the list of tools.
    pub(super) fn listed(&self) -> Value {
        json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": {
                "readOnlyHint": self.method == Method::GET,
                "destructiveHint": self.method == Method::DELETE,
            },
        })
    }

    /// Path and body of a call with these arguments.
    ///
    /// # Errors
    /// Names the missing or unknown argument.
    pub(super) fn request(&self, arguments: &Value) -> Result<(String, Option<Value>), String> {
        let none = Map::new();
        let arguments = match arguments {
            Value::Null => &none,
            Value::Object(arguments) => arguments,
            _ => return Err("arguments are an object".into()),
        };
        let known = |name: &String| {
            let body = self.has_body && name == "body";
            body || self.in_path.contains(name) || self.in_query.contains(name)
        };
        if let Some(unknown) = arguments.keys().find(|name| !known(name)) {
            return Err(format!("{} has no argument {unknown:?}", self.name));
        }
        let mut path = self.path.clone();
        for name in &self.in_path {
            let value = arguments.get(name).filter(|value| !value.is_null());
            let value = value.ok_or_else(|| format!("{} needs {name:?}", self.name))?;
            path = path.replace(&format!("{{{name}}}"), &encoded(value));
        }
        let given = self.in_query.iter();
        let given = given.filter_map(|name| Some((name, arguments.get(name)?)));
        let given = given.filter(|(_, value)| !value.is_null());
        let query: Vec<_> = given
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let body = arguments.get("body").cloned();
        match self.has_body && body.is_none() {
            true => Err(format!("{} needs \"body\"", self.name)),
            false => Ok((path, body)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::document;

    #[test]
    fn tools_that_change_something_are_there_where_that_is_allowed() {
        let document = document();
        let (read, all) = (of(&document, false), of(&document, true));
        assert!(read.iter().all(|tool| tool.method == Method::GET));
        let names: Vec<_> = read.iter().map(|tool| tool.name.as_str()).collect();
        for name in ["tenants", "cluster", "usage", "order"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(!names.contains(&"order_events") && !names.contains(&"export"));
        assert!(all.iter().any(|tool| tool.name == "create_tenant") && all.len() > read.len());
        let text = Value::from_iter(all.iter().map(Tool::listed)).to_string();
        assert!(!text.contains("$ref"), "a schema stands by itself");
    }

    #[test]
    fn arguments_stand_where_they_belong_and_nowhere_else() {
        let tools = of(&document(), true);
        let tool = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap();
        let asked = tool("tenant").request(&json!({"tenant": "../a b"}));
        assert_eq!(asked.unwrap().0, "/api/v1/tenants/..%2Fa%20b");
        let asked = tool("tenants").request(&json!({"limit": 5, "after": "a&b=c"}));
        assert_eq!(asked.unwrap().0, "/api/v1/tenants?limit=5&after=a%26b%3Dc");
        assert!(tool("tenant").request(&json!({})).is_err());
        assert!(tool("tenants").request(&json!({"x": 1})).is_err());
        assert!(tool("create_tenant").request(&json!({})).is_err());
    }
}
