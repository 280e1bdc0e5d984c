%% @doc A process that packs the records for one trace queue: many in one message, a bundle.
%%
%% To the broker it is a queue (`rabbit_itc_topology') that is bound to `amq.rabbitmq.trace' in the trace
%% queue's place. A channel casts a message at a queue's process and goes on: of one that is slow, that has
%% ended, or whose record is gone it sees nothing. Settlements are cast at the same process
%% (`rabbit_itc_record'), so each channel's records stay in order.
%%
%% A bundle says where it stands: `epoch' is one collector's, `number' counts its bundles, `first' is its
%% first record's place among all that the collector was handed, and `lost' how many of these were left
%% out since the bundle before.
-module(rabbit_itc_collector).

-behaviour(gen_server).

-export([start_link/1]).
-export([init/1, handle_continue/2, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-include("rabbit_itc.hrl").

-define(KEY, <<"batch.1">>). % 1 is the form's version
%% A bundle is full with so many records or bytes, and goes after so many milliseconds.
-define(MOST_RECORDS, 256).
-define(MOST_BYTES, 131072).
-define(WAIT_MS, 20).
%% A waiting message is a term besides its body: some 2,000 bytes on 3.10.
-define(TERM_BYTES, 2000).
%% In a cluster a change of bindings takes its time to be known on each node.
-define(SETTLE_MS, 100).

%% `shed' is how many of the next records are left out, `keys' those that it is bound with.
-record(state, {queue, own, keys = [], epoch, number = 0, next = 0, lost = 0,
                records = [], count = 0, bytes = 0, is_due = false, shed = 0}).

start_link(Queue) ->
    Spawn = [{message_queue_data, off_heap}, {fullsweep_after, 20}],
    gen_server:start_link(?MODULE, Queue, [{spawn_opt, Spawn}]).

init(Queue) ->
    process_flag(trap_exit, true),
    {ok, #state{queue = Queue, own = rabbit_itc_topology:collected(Queue), epoch = os:system_time(microsecond)},
     {continue, collect}}.

%% While both queues are bound each record comes twice, and those here are dropped. Of what comes while
%% the trace queue is being unbound nobody can say whether it is in both: it is counted as lost. A first
%% bundle, without records, says that this is over.
handle_continue(collect, State = #state{queue = Queue, own = Own}) ->
    Keys = rabbit_itc_topology:keys(Queue),
    Wishes = rabbit_itc_topology:wishes(Keys),
    rabbit_itc_topology:declare(Own),
    rabbit_itc_collectors:collects(Queue),
    [rabbit_itc_topology:bind(Own, Wish) || Wish <- Wishes],
    Lost = case [Key || Key <- Keys, lists:member(Key, Wishes)] of
               [] ->
                   0;
               Direct ->
                   settle(),
                   drop(State),
                   [rabbit_itc_topology:unbind(Queue, Key) || Key <- Direct],
                   settle(),
                   drop(State)
           end,
    self() ! look,
    {noreply, put_bundle(lost(Lost, State#state{keys = Wishes}), [])}.

%% What the broker asks of a queue's process; clients may do nothing with an exclusive queue.
handle_call({info, Items}, _, State) ->
    {reply, {ok, [{Item, info(Item, State#state.own)} || Item <- Items]}, State};
handle_call(info, From, State) ->
    handle_call({info, [name, pid, owner_pid, messages, consumers, state]}, From, State);
handle_call(stat, _, State) ->
    {reply, {ok, 0, 0}, State};
handle_call(consumers, _, State) ->
    {reply, [], State};
handle_call(purge, _, State) ->
    {reply, {ok, 0}, State};
handle_call({delete, _, _, _}, _, State) -> % with its virtual host
    {stop, normal, {ok, 0}, State};
handle_call(Request, _, State) when element(1, Request) =:= basic_get ->
    {reply, empty, State};
handle_call(Request, _, State) when element(1, Request) =:= basic_consume ->
    {reply, {error, exclusive_consume_unavailable}, State};
handle_call(_, _, State) ->
    {reply, ok, State}.

handle_cast({deliver, Delivery, _}, State) ->
    acknowledge(Delivery, State),
    {noreply, collected(fun() -> rabbit_itc_wire:record(Delivery#delivery.message) end, State)};
handle_cast({settlement, Key, Body}, State) ->
    {noreply, collected(fun() -> rabbit_itc_wire:settlement(Key, Body) end, State)};
handle_cast(delete_immediately, State) ->
    {stop, normal, State};
handle_cast(_, State) ->
    {noreply, State}.

handle_info(flush, State) ->
    {noreply, flushed(State#state{is_due = false})};
handle_info(look, State = #state{queue = Queue, own = Own}) ->
    Began = erlang:monotonic_time(millisecond),
    Keys = rabbit_itc_topology:keys(Queue),
    rabbit_itc_collectors:look_again(Began),
    case {rabbit_itc_topology:wishes(Keys), rabbit_itc_topology:process(Own)} of
        {[], _} -> {stop, normal, State};
        {Wishes, Self} when Self =:= self() -> {noreply, bound(Wishes, Keys, State)};
        _ -> {stop, {shutdown, replaced}, State}
    end;
handle_info(_, State) ->
    {noreply, State}.

%% Give the bindings back. What comes meanwhile may be in the trace queue as well: it is counted as lost.
terminate({shutdown, replaced}, #state{queue = Queue}) ->
    rabbit_itc_collectors:ends(Queue);
terminate(_, State = #state{queue = Queue, own = Own, keys = Keys}) ->
    rabbit_itc_collectors:ends(Queue),
    Rest = flushed(take(State)),
    Wishes = rabbit_itc_topology:wishes(rabbit_itc_topology:keys(Queue)),
    [catch rabbit_itc_topology:bind(Queue, Key) || Key <- lists:usort(Keys ++ Wishes)], % unless it is gone
    settle(),
    rabbit_itc_topology:remove(Own),
    settle(),
    put_bundle(lost(drop(Rest), Rest), [{<<"end">>, bool, true}]).

info(name, Own) -> Own;
info(Item, _) when Item =:= pid; Item =:= owner_pid -> self();
info(Item, _) when Item =:= durable; Item =:= auto_delete -> false;
info(exclusive, _) -> true;
info(arguments, _) -> [];
info(state, _) -> running;
info(Item, _) when Item =:= messages; Item =:= messages_ready; Item =:= messages_unacknowledged;
                   Item =:= consumers -> 0;
info(_, _) -> ''.

%% Follow the reader's choice of keys; where it has bound one itself each record came twice until now.
bound(Wishes, Direct, State = #state{queue = Queue, own = Own, keys = Keys}) ->
    [rabbit_itc_topology:bind(Own, Key) || Key <- Wishes -- Keys],
    [rabbit_itc_topology:unbind(Own, Key) || Key <- Keys -- Wishes],
    [rabbit_itc_topology:unbind(Queue, Key) || Key <- Direct, lists:member(Key, Wishes)],
    State#state{keys = Wishes}.

settle() ->
    case nodes() of
        [] -> ok;
        _ -> timer:sleep(?SETTLE_MS)
    end.

%% The broker's channels wait for what a queue owes to those who publish to the trace exchange themselves.
acknowledge(#delivery{confirm = false, flow = noflow}, _) ->
    ok;
acknowledge(#delivery{confirm = Confirm, flow = Flow, sender = Sender, msg_seq_no = Number}, State) ->
    Flow =:= flow andalso begin credit_flow:ack(Sender, {1, 1}), credit_flow:peer_down(Sender) end,
    Confirm andalso rabbit_classic_queue:confirm_to_sender(Sender, State#state.own, [Number]),
    ok.

collected(_, State = #state{shed = Shed}) when Shed > 0 ->
    lost(1, State#state{shed = Shed - 1});
collected(Read, State) ->
    try Read() of
        none -> State;
        {Size, Record} -> added(Size, Record, State)
    catch
        Class:Reason:Stack ->
            rabbit_itc_watch:failed(Class, Reason, Stack),
            lost(1, State)
    end.

added(Size, Record, State = #state{bytes = Bytes, count = Count}) when Count > 0, Bytes + Size > ?MOST_BYTES ->
    added(Size, Record, flushed(State));
added(Size, Record, State = #state{records = Records, count = Count, bytes = Bytes, next = Next}) ->
    Full = State#state{records = [Record | Records], count = Count + 1, bytes = Bytes + Size, next = Next + 1},
    case Count + 1 >= ?MOST_RECORDS orelse Bytes + Size >= ?MOST_BYTES of
        true -> flushed(Full);
        false -> due(Full)
    end.

due(State = #state{is_due = true}) ->
    State;
due(State) ->
    erlang:send_after(?WAIT_MS, self(), flush),
    State#state{is_due = true}.

lost(0, State) ->
    State;
lost(Count, State = #state{count = 0, next = Next, lost = Lost}) ->
    State#state{next = Next + Count, lost = Lost + Count};
lost(Count, State) ->
    lost(Count, flushed(State)).

flushed(State = #state{count = 0}) ->
    State;
flushed(State = #state{count = Count, bytes = Bytes}) ->
    shed(Bytes div Count, put_bundle(State, [])).

%% Leave out the half of what waits once that is more than may be kept.
shed(Size, State) ->
    {ok, Most} = application:get_env(rabbitmq_itc, collector_bytes),
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    case Waiting * (Size + ?TERM_BYTES) > Most of
        true -> State#state{shed = Waiting div 2};
        false -> State
    end.

put_bundle(State = #state{queue = Queue, records = Records, count = Count, next = Next}, More) ->
    Headers = [{<<"itc">>, longstr, rabbit_itc_record:version()},
               {<<"node">>, longstr, atom_to_binary(node(), utf8)},
               {<<"epoch">>, long, State#state.epoch},
               {<<"number">>, long, State#state.number},
               {<<"first">>, long, Next - Count},
               {<<"records">>, long, Count},
               {<<"lost">>, long, State#state.lost} | More],
    Body = iolist_to_binary(lists:reverse(Records)),
    Empty = State#state{records = [], count = 0, bytes = 0},
    case put_into(Queue, rabbit_itc_record:message(Queue#resource.virtual_host, ?KEY, Headers, Body)) of
        true -> Empty#state{number = State#state.number + 1, lost = 0};
        false -> Empty#state{lost = State#state.lost + Count}
    end.

%% Put a message into the trace queue if it is there, and tell whether that was done.
put_into(Queue, Message) ->
    try
        case rabbit_itc_record:there(Queue) of
            [] -> false;
            Records -> ok =:= rabbit_itc_record:deliver(Records, Message)
        end
    catch
        Class:Reason:Stack ->
            rabbit_itc_watch:failed(Class, Reason, Stack),
            false
    end.

%% Take all that has come until now.
take(State) ->
    until_now(fun(Cast, Before) -> element(2, handle_cast(Cast, Before)) end, State).

%% Drop all that has come until now, and count it; settlements came here alone and are passed on.
drop(State = #state{queue = Queue}) ->
    until_now(fun({settlement, Key, Body}, Count) ->
                      put_into(Queue, rabbit_itc_record:settlement(Queue, Key, Body)),
                      Count;
                 ({deliver, Delivery = #delivery{message = Message}, _}, Count) ->
                      acknowledge(Delivery, State),
                      case rabbit_itc_wire:is_settlement(Message) of
                          true -> put_into(Queue, Message), Count;
                          false -> Count + 1
                      end
              end, 0).

until_now(Function, Before) ->
    self() ! now,
    until_now_loop(Function, Before).

until_now_loop(Function, Before) ->
    receive
        now -> Before;
        {'$gen_cast', Cast} when element(1, Cast) =:= deliver; element(1, Cast) =:= settlement ->
            until_now_loop(Function, Function(Cast, Before))
    end.
