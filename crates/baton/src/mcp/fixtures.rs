//! What the official conformance suite asks of a server: tools, resources and prompts of its own,
//! beside the real ones, so that the real transport, door and handler are what is tested. Only
//! `baton serve --conformance-fixtures` has them; they keep nothing and reach nothing.

#![expect(deprecated, reason = "the suite still asks for logging, which the SDK retires")]

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, ErrorData, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
    GetTaskResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::Handler;
use jobs::Jobs;
use talk::Changes;

mod jobs;
mod rounds;
mod talk;
mod texts;
mod tools;

/// The real handler with fixtures beside it.
#[derive(Clone)]
pub struct Dressed {
    handler: Handler,
    shared: Arc<Shared>,
}

/// What all connections share.
#[derive(Default)]
pub struct Shared {
    jobs: Arc<Jobs>,
    changes: Changes,
}

impl Dressed {
    /// Puts fixtures beside a handler.
    #[must_use]
    pub fn new(handler: Handler, shared: Arc<Shared>) -> Self {
        Self { handler, shared }
    }
}

/// Reads a value of the protocol from the JSON that its specification shows.
fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("a fixture is broken: {error}"), None))
}

impl ServerHandler for Dressed {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.handler.get_info();
        let own = json!({
            "tools": { "listChanged": true }, "prompts": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "logging": {}, "completions": {},
        });
        let mut all = serde_json::to_value(&info.capabilities).unwrap_or_default();
        if let (Some(all), Value::Object(own)) = (all.as_object_mut(), own) {
            all.extend(own);
        }
        info.capabilities = serde_json::from_value::<ServerCapabilities>(all)
            .unwrap_or_else(|_| info.capabilities.clone());
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.handler.supported_protocol_versions()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let own = tools::all().into_iter().find(|tool| tool.name == name);
        own.or_else(|| self.handler.get_tool(name))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut result = self.handler.list_tools(request, context).await?;
        result.tools.extend(tools::all());
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(result) = tools::plain(&request) {
            return Ok(read::<rmcp::model::CallToolResult>(result)?.into());
        }
        if let Some(answer) = rounds::call(&self.handler, &request, &context) {
            return answer;
        }
        if let Some(answer) = self.shared.jobs.call(&request, &context).await {
            return answer;
        }
        if let Some(answer) = self.shared.changes.call(&request) {
            return Ok(answer);
        }
        match talk::call(&request, &context).await {
            Some(answer) => answer,
            None => self.handler.call_tool(request, context).await,
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        match self.shared.jobs.get(&request.task_id) {
            Some(task) => Ok(GetTaskResult::new(task)),
            None => self.handler.get_task(request, context).await,
        }
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.shared.jobs.update(&request.task_id, &request.input_responses) {
            return Ok(());
        }
        self.handler.update_task(request, context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.shared.jobs.cancel(&request.task_id) {
            return Ok(());
        }
        self.handler.cancel_task(request, context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut result = self.handler.list_resources(request, context).await?;
        result.resources.extend(read::<Vec<_>>(texts::resources())?);
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut result = self.handler.list_resource_templates(request, context).await?;
        result.resource_templates.extend(read::<Vec<_>>(texts::templates())?);
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match texts::resource(&request.uri) {
            Some(result) => Ok(read::<rmcp::model::ReadResourceResult>(result)?.into()),
            None => self.handler.read_resource(request, context).await,
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut result = self.handler.list_prompts(request, context).await?;
        result.prompts.extend(read::<Vec<_>>(texts::prompts())?);
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if let Some(answer) = rounds::prompt(&request) {
            return answer;
        }
        match texts::prompt(&request) {
            Some(result) => Ok(read::<rmcp::model::GetPromptResult>(result)?.into()),
            None => self.handler.get_prompt(request, context).await,
        }
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = json!({ "values": ["paris", "park"], "total": 2, "hasMore": false });
        read(json!({ "resultType": "complete", "completion": values }))
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        self.shared.changes.follow(subscription).await;
        Ok(())
    }
}
