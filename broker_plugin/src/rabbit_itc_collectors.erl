%% @doc Has a collector for each trace queue whose reader wants bundles, on the node of the queue's leader.
%%
%% A collector ends by itself where they are wanted no more. One that was killed is begun again at once.
-module(rabbit_itc_collectors).

-behaviour(gen_server).

-export([start_link/0, start_supervisor/0, look_again/1]).
-export([remember/0, collects/1, ends/1, collector/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(SUPERVISOR, rabbit_itc_collectors_sup).
-define(LOOK_MS, 100).
%% To look takes a fiftieth of the time at most: RabbitMQ 4 goes through all bindings that it has.
-define(PAUSES, 50).
%% After this time a collector is begun again that has ended by itself.
-define(PAUSE_MS, 1000).
%% `collectors' has the process for each trace queue, or when there may be one again.
-record(state, {collectors = #{}}).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc The collectors' supervisor: one that has died leaves the others alone.
start_supervisor() ->
    supervisor:start_link({local, ?SUPERVISOR}, ?MODULE, collectors).

%% @doc Have the calling process look again, soon after a look that began then.
look_again(Began) ->
    erlang:send_after(max(?LOOK_MS, (now_ms() - Began) * ?PAUSES), self(), look).

%% @doc Have a table of who collects on this node, for as long as the calling process lives.
remember() ->
    ets:new(?MODULE, [named_table, public, {read_concurrency, true}]).

%% @doc Note that the calling process collects for a trace queue.
collects(Queue) ->
    ets:insert(?MODULE, {Queue, self()}).

%% @doc Note that it does no more.
ends(Queue) ->
    ets:delete_object(?MODULE, {Queue, self()}).

%% @doc The process on this node that collects for a trace queue, or `none'.
collector(Queue) ->
    case ets:lookup(?MODULE, Queue) of
        [{_, Collector}] -> Collector;
        [] -> none
    end.

init(collectors) ->
    Collector = #{id => collector, start => {rabbit_itc_collector, start_link, []}, restart => temporary,
                  shutdown => 10000},
    {ok, {#{strategy => simple_one_for_one}, [Collector]}};
init([]) ->
    look_again(now_ms()),
    {ok, #state{}}.

handle_call(_, _, State) ->
    {reply, ok, State}.

handle_cast(_, State) ->
    {noreply, State}.

handle_info(look, State) ->
    Began = now_ms(),
    Next = look(State),
    look_again(Began),
    {noreply, Next};
handle_info({'DOWN', _, process, Pid, Reason}, State = #state{collectors = Collectors}) ->
    Queues = [Queue || {Queue, Running} <- maps:to_list(Collectors), Running =:= Pid],
    case Reason of
        _ when Reason =:= killed; Reason =:= {shutdown, replaced} ->
            {noreply, look(State#state{collectors = maps:without(Queues, Collectors)})};
        _ ->
            Until = maps:from_list([{Queue, now_ms() + ?PAUSE_MS} || Queue <- Queues]),
            {noreply, State#state{collectors = maps:merge(Collectors, Until)}}
    end;
handle_info(_, State) ->
    {noreply, State}.

look(State = #state{collectors = Collectors}) ->
    [exit(Pid, kill) || {_, Pid, _, _} <- children(), is_stuck(Pid)],
    Now = now_ms(),
    Left = maps:filter(fun(_, Until) -> is_pid(Until) orelse Until > Now end, Collectors),
    State#state{collectors = lists:foldl(fun begun/2, Left, queues())}.

queues() ->
    try
        rabbit_itc_topology:trace_queues()
    catch
        Class:Reason:Stack ->
            rabbit_itc_watch:failed(Class, Reason, Stack),
            []
    end.

begun(Queue, Collectors) when is_map_key(Queue, Collectors) ->
    Collectors;
begun(Queue, Collectors) ->
    try is_wanted(Queue) andalso start(Queue) of
        false -> Collectors;
        Pid -> Collectors#{Queue => Pid}
    catch
        Class:Reason:Stack ->
            rabbit_itc_watch:failed(Class, Reason, Stack),
            Collectors#{Queue => now_ms() + ?PAUSE_MS}
    end.

start(Queue) ->
    {ok, Pid} = supervisor:start_child(?SUPERVISOR, [Queue]),
    monitor(process, Pid),
    Pid.

children() ->
    try supervisor:which_children(?SUPERVISOR) catch exit:_ -> [] end. % it may be beginning anew

%% One that does not come to run is killed before what waits for it takes all memory.
is_stuck(Pid) ->
    {ok, Most} = application:get_env(rabbitmq_itc, collector_records),
    case process_info(Pid, message_queue_len) of
        {_, Waiting} -> Waiting > Most;
        undefined -> false
    end.

%% One on another node goes on for as long as it lives, though the leader has come here.
is_wanted(Queue) ->
    rabbit_itc_topology:wishes(rabbit_itc_topology:keys(Queue)) =/= [] andalso
        not is_alive(rabbit_itc_topology:process(rabbit_itc_topology:collected(Queue))).

is_alive(none) -> false;
is_alive(Pid) when node(Pid) =:= node() -> is_process_alive(Pid);
is_alive(Pid) -> true =:= rpc:call(node(Pid), erlang, is_process_alive, [Pid], 1000).

now_ms() ->
    erlang:monotonic_time(millisecond).
