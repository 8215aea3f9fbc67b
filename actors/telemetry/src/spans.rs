//! Finished spans, and their export: batch by batch, with an answer for each. The tracer hands them
//! over, for all roles of the cluster.

use std::borrow::Cow;

use bus_schemas::{SpanId, TraceContext, TraceId};
use opentelemetry_http::{HttpClient as _, Request};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind as WireKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, SpanFlags, Status};
use prost::Message as _;

use crate::catalogue::traces::SpanKind;
use crate::collector::Collector;
use crate::error::TelemetryError;
use crate::export::collector;
use crate::resource::ResourceSettings;
use crate::settings::{Role, TelemetrySettings};

/// Flag of a sampled span, as in a `traceparent`.
const SAMPLED: u32 = 1;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
    /// True or false.
    Flag(bool),
}

/// Attributes by name.
pub type Attributes = Vec<(Cow<'static, str>, Attribute)>;

/// An event of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanEvent {
    /// Its name.
    pub name: &'static str,
    /// Its time, nanoseconds since 1970.
    pub at: u64,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A span that has ended. Times are nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSpan {
    /// The role that did the work.
    pub role: Role,
    /// The kind.
    pub kind: SpanKind,
    /// The name.
    pub name: String,
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Its parent.
    pub parent: Option<SpanId>,
    /// True if another program made the parent.
    pub is_remote: bool,
    /// The start.
    pub start: u64,
    /// The end.
    pub end: u64,
    /// Attributes.
    pub attributes: Attributes,
    /// Events.
    pub events: Vec<SpanEvent>,
    /// Spans of other traces that it has to do with.
    pub links: Vec<TraceContext>,
    /// The code of the error that ended it, and what is known of it.
    pub error: Option<(&'static str, String)>,
}

/// The reason why a collector did not take spans.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It will not take these: to send them again is useless.
    #[error("the collector refused them with status {0}")]
    Refused(u16),
    /// It may take them later: it is busy, or cannot be reached.
    #[error("{0}")]
    Later(String),
}

/// Statuses of spans that a collector never takes: malformed, or too long.
const REFUSED: [u16; 3] = [400, 413, 422];

/// The exporter of the spans of all roles. One post has all spans of a batch, so that the collector takes them all or
/// none.
#[derive(Debug)]
pub struct SpanExport {
    collector: Collector,
    endpoint: String,
    headers: Vec<(String, String)>,
    cluster: String,
    /// The role of this process.
    role: Role,
    /// Attributes that its environment sets.
    given: ResourceSettings,
}

impl SpanExport {
    /// Creates the exporter; `None` if no endpoint for spans is set.
    ///
    /// # Errors
    /// As [`crate::Telemetry::start`].
    pub fn start(settings: &TelemetrySettings) -> Result<Option<Self>, TelemetryError> {
        let Some(endpoint) = settings.traces.as_deref() else {
            return Ok(None);
        };
        Ok(Some(Self {
            collector: collector(settings, endpoint)?,
            endpoint: endpoint.to_owned(),
            headers: settings.headers.clone(),
            cluster: settings.cluster.clone(),
            role: settings.role,
            given: settings.resource.clone(),
        }))
    }

    /// Sends spans and waits for the collector's answer, at most for the timeout of the settings. Blocks.
    ///
    /// # Errors
    /// The reason why the collector did not take them.
    pub fn send(&self, spans: &[FinishedSpan]) -> Result<(), SendError> {
        if spans.is_empty() {
            return Ok(());
        }
        let body = self.request(spans).encode_to_vec();
        let mut request =
            Request::post(&self.endpoint).header("content-type", "application/x-protobuf");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request
            .body(body.into())
            .map_err(|error| SendError::Later(error.to_string()))?;
        let sent = futures_executor::block_on(self.collector.send_bytes(request));
        let answer = sent.map_err(|error| SendError::Later(error.to_string()))?;
        match answer.status().as_u16() {
            200..300 => Ok(()),
            refused if REFUSED.contains(&refused) => Err(SendError::Refused(refused)),
            // A busy collector, or a token or an address that may be mended.
            later => Err(SendError::Later(format!(
                "the collector answers with status {later}"
            ))),
        }
    }

    fn request(&self, spans: &[FinishedSpan]) -> ExportTraceServiceRequest {
        let roles = [
            Role::Client,
            Role::Leader,
            Role::Worker,
            Role::Controller,
            Role::Tracer,
        ];
        let of_role = |role: Role| {
            let spans = spans.iter().filter(|span| span.role == role);
            let spans: Vec<_> = spans.map(span_message).collect();
            (!spans.is_empty()).then(|| ResourceSpans {
                resource: Some(self.resource(role)),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: "warploom".into(),
                        version: env!("CARGO_PKG_VERSION").into(),
                        ..InstrumentationScope::default()
                    }),
                    spans,
                    schema_url: String::new(),
                }],
                schema_url: String::new(),
            })
        };
        ExportTraceServiceRequest {
            resource_spans: roles.into_iter().filter_map(of_role).collect(),
        }
    }

    /// The service of a role in this cluster: not one process, as others may have done the work. The environment of
    /// this process says of others only what is true of them. The cluster's own roles are taken to share a namespace.
    fn resource(&self, role: Role) -> Resource {
        let in_namespace = matches!(role, Role::Leader | Role::Worker);
        let given: Vec<_> = match role == self.role {
            true => self.given.own().collect(),
            false => self.given.of_others(in_namespace).collect(),
        };
        let ours = [
            ("service.name", role.service_name()),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.namespace", "warploom"),
            ("warploom.cluster", self.cluster.as_str()),
            ("telemetry.sdk.name", "warploom"),
            ("telemetry.sdk.language", "rust"),
            ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ];
        let ours = ours
            .into_iter()
            .filter(|(key, _)| given.iter().all(|(other, _)| other != key));
        let text = |(key, value): (&str, &str)| {
            let value = Value::StringValue(value.to_owned());
            key_value(key, value)
        };
        Resource {
            attributes: ours.chain(given.iter().copied()).map(text).collect(),
            ..Resource::default()
        }
    }
}

fn span_message(span: &FinishedSpan) -> Span {
    let kind = match span.kind {
        SpanKind::Client => WireKind::Client,
        SpanKind::Server => WireKind::Server,
        SpanKind::Producer => WireKind::Producer,
        SpanKind::Consumer => WireKind::Consumer,
    };
    let known = SpanFlags::ContextHasIsRemoteMask as u32 | SAMPLED;
    let remote = if span.is_remote {
        SpanFlags::ContextIsRemoteMask as u32
    } else {
        0
    };
    let event = |event: &SpanEvent| Event {
        time_unix_nano: event.at,
        name: event.name.to_owned(),
        attributes: key_values(&event.attributes),
        dropped_attributes_count: 0,
    };
    let link = |to: &TraceContext| Link {
        trace_id: to.trace.0.to_vec(),
        span_id: to.span.0.to_vec(),
        flags: SpanFlags::ContextHasIsRemoteMask as u32 | SAMPLED,
        ..Link::default()
    };
    let status = |(_, message): &(&'static str, String)| Status {
        message: message.clone(),
        code: StatusCode::Error.into(),
    };
    Span {
        trace_id: span.trace.0.to_vec(),
        span_id: span.span.0.to_vec(),
        parent_span_id: span
            .parent
            .map(|parent| parent.0.to_vec())
            .unwrap_or_default(),
        flags: known | remote,
        name: span.name.clone(),
        kind: kind.into(),
        start_time_unix_nano: span.start,
        end_time_unix_nano: span.end.max(span.start),
        attributes: key_values(&span.attributes),
        events: span.events.iter().map(event).collect(),
        links: span.links.iter().map(link).collect(),
        status: Some(span.error.as_ref().map(status).unwrap_or_default()),
        ..Span::default()
    }
}

fn key_values(attributes: &Attributes) -> Vec<KeyValue> {
    let pair = |(name, of): &(Cow<'static, str>, Attribute)| {
        let value = match of {
            // OTLP has no unsigned integers.
            Attribute::Number(number) => {
                Value::IntValue(i64::try_from(*number).unwrap_or(i64::MAX))
            }
            Attribute::Text(text) => Value::StringValue(text.clone()),
            Attribute::Flag(flag) => Value::BoolValue(*flag),
        };
        key_value(name, value)
    };
    attributes.iter().map(pair).collect()
}

fn key_value(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
