%% @doc The tab *Causality* of RabbitMQ's management page, and `/api/itc', which it asks.
%%
%% The management plugin looks for modules of this behaviour in all plugins; without it nothing here
%% is ever called, and so it is none of the applications that this one needs.
-module(rabbit_itc_mgmt).

-behaviour(rabbit_mgmt_extension).

-export([dispatcher/0, web_ui/0]).
-export([init/2, variances/2, is_authorized/2, content_types_provided/2, to_json/2]).

%% The management plugin's own.
-record(context, {user, password = none, impl}).

dispatcher() ->
    [{"/itc", ?MODULE, []}].

web_ui() ->
    [{javascript, <<"itc.js">>}].

init(Request, _) ->
    {cowboy_rest, rabbit_mgmt_headers:set_common_permission_headers(Request, ?MODULE), #context{}}.

variances(Request, Context) ->
    {[<<"accept-encoding">>, <<"origin">>], Request, Context}.

is_authorized(Request, Context) ->
    rabbit_mgmt_util:is_authorized(Request, Context).

content_types_provided(Request, Context) ->
    {rabbit_mgmt_util:responder_map(to_json), Request, Context}.

%% The service's address, this node's version of the plugin, and what it does; of the virtual hosts
%% those alone that the user sees elsewhere in the management API.
to_json(Request, Context) ->
    {ok, Url} = application:get_env(rabbitmq_itc, url),
    #{vhosts := Told, failures := Failures, claimants := Claimants} = rabbit_itc_watch:status(),
    Visible = rabbit_mgmt_util:list_visible_vhosts_names(Context#context.user),
    VHosts = [VHost || VHost <- Told, lists:member(VHost, Visible)],
    Facts = [{url, iolist_to_binary(Url)}, {version, rabbit_itc_record:version()}, {vhosts, VHosts},
             {failures, Failures}, {claimants, Claimants}],
    rabbit_mgmt_util:reply(Facts, Request, Context).
