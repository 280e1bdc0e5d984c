%% @doc The one process of the plugin: it sees which virtual hosts are traced, and channels end.
%%
%% The broker tells nobody that tracing was switched on or off, so this looks ten times a second at
%% the list it keeps; that costs a microsecond. When a virtual host is new in it, each channel is
%% asked where it stands (`rabbit_itc_interceptor:init/1'), in its own process and so in order.
-module(rabbit_itc_watch).

-behaviour(gen_server).

-export([start_link/0, watch/2, ask/1, failed/3, status/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-define(LOOK_MS, 100).
-define(ROUND_MS, 1000).
-define(LOG, #{domain => [rabbitmq, itc]}).

%% `told' are the virtual hosts whose settlements are told; `channels' holds the place of each channel
%% that has been told of, by its process; `asked' says of each virtual host whose channels were looked
%% at within the last second whether they are to be once more.
-record(state, {told = [], claimants = [], channels = #{}, asked = #{}, failures = 0}).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Tell it when this channel's process has ended.
watch(Pid, Place) ->
    gen_server:cast(?MODULE, {watch, Pid, Place}).

%% @doc Have each channel of a virtual host say where it stands, on each node, once a second at most.
ask(VHost) ->
    gen_server:abcast(?MODULE, {ask, VHost}).

%% @doc Count a failure; the channel in which it happened goes on.
failed(Class, Reason, Stack) ->
    gen_server:cast(?MODULE, {failed, {Class, Reason, Stack}}).

%% @doc For the management API: what is told, and why not.
status() ->
    gen_server:call(?MODULE, status).

init([]) ->
    process_flag(trap_exit, true),
    {module, _} = code:ensure_loaded(rabbit_queue_type),
    self() ! register,
    {ok, #state{}}.

handle_call(status, _, State) ->
    {reply, #{vhosts => State#state.told, failures => State#state.failures,
              claimants => State#state.claimants}, State}.

handle_cast({watch, Pid, Place}, State = #state{channels = Channels}) ->
    is_map_key(Pid, Channels) orelse erlang:monitor(process, Pid),
    {noreply, State#state{channels = Channels#{Pid => Place}}};
handle_cast({ask, VHost}, State = #state{asked = Asked}) when is_map_key(VHost, Asked) ->
    {noreply, State#state{asked = Asked#{VHost := true}}};
handle_cast({ask, VHost}, State = #state{asked = Asked, channels = Channels}) ->
    [rabbit_itc_interceptor:look(Pid) || {Pid, #{vhost := Of}} <- maps:to_list(Channels), Of =:= VHost],
    erlang:send_after(?ROUND_MS, self(), {round, VHost}),
    {noreply, State#state{asked = Asked#{VHost => false}}};
handle_cast({failed, What}, State = #state{failures = Failures}) ->
    Failures =:= 0 andalso
        logger:error("rabbitmq_itc: a record was not told: ~tp", [What], ?LOG),
    {noreply, State#state{failures = Failures + 1}}.

handle_info(register, State) ->
    Traced = traced(),
    ok = rabbit_itc_interceptor:register(), % which asks the channels
    handle_info(look, look(Traced, State));
handle_info(look, State = #state{told = Told}) ->
    erlang:send_after(?LOOK_MS, self(), look),
    Traced = traced(),
    Traced -- Told =:= [] orelse rabbit_channel:refresh_interceptors(),
    {noreply, look(Traced, State)};
handle_info({round, VHost}, State = #state{asked = Asked}) ->
    {IsAsked, Rest} = maps:take(VHost, Asked),
    IsAsked andalso gen_server:cast(self(), {ask, VHost}),
    {noreply, State#state{asked = Rest}};
handle_info({'DOWN', _, process, Pid, _}, State = #state{channels = Channels}) ->
    {Place, Rest} = maps:take(Pid, Channels),
    tell(<<"closed">>, [{<<"pid">>, longstr, rabbit_itc_record:pid_text(Pid)}], Place),
    {noreply, State#state{channels = Rest}};
handle_info(_, State) ->
    {noreply, State}.

terminate(_, State) ->
    [tell(<<"ended">>, [{<<"reason">>, longstr, <<"stopped">>}], rabbit_itc_record:place(VHost))
     || VHost <- State#state.told],
    rabbit_itc_interceptor:unregister().

%% The virtual hosts whose settlements can be told.
traced() ->
    case rabbit_itc_interceptor:claimants() of
        [] -> {ok, Traced} = application:get_env(rabbit, trace_vhosts), Traced;
        _ -> []
    end.

look(Traced, State = #state{told = Told, claimants = Before}) ->
    Claimants = rabbit_itc_interceptor:claimants(),
    Claimants =:= Before orelse log(Claimants),
    [tell(<<"ended">>, [{<<"reason">>, longstr, reason(Claimants)}], rabbit_itc_record:place(VHost))
     || VHost <- Told -- Traced],
    [tell(<<"began">>, [], rabbit_itc_record:place(VHost)) || VHost <- Traced -- Told],
    State#state{told = Traced, claimants = Claimants}.

log([]) ->
    logger:notice("rabbitmq_itc: settlements are told again", [], ?LOG);
log(Claimants) ->
    logger:warning("rabbitmq_itc: no settlements are told while ~tp changes what clients settle",
                   [Claimants], ?LOG).

reason([]) -> <<"not traced">>; % nor is this told then
reason([Module | _]) -> iolist_to_binary([atom_to_binary(Module, utf8), " claims settlements"]).

%% A queue that cannot take a record now must not take the plugin along.
tell(Event, Headers, Place) ->
    try
        rabbit_itc_record:tell(Event, Headers, Place)
    catch
        Class:Reason:Stack -> failed(Class, Reason, Stack)
    end.
