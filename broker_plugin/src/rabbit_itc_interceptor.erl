%% @doc What a channel's client settles, seen in the channel's own process.
%%
%% The broker hands each AMQP 0.9.1 method to each registered interceptor before it handles it. From
%% here a method goes on as it came, always: what fails in between is counted, not raised. What is
%% told stands in the trace queue in order with the channel's publishes and deliveries, because the
%% same process sends them.
%%
%% Deliveries are not seen here, nor whether the broker has refused a method. So a channel has the
%% broker have it *looked* at, which calls `init/1' with all that it knows: the look waits behind the
%% methods that are on their way, and before what the one at hand has handed over. A channel tells no
%% more records than a few for each of its deliveries, and ?MOST beyond.
-module(rabbit_itc_interceptor).

%% The registry takes a module only if it says so.
-behaviour(rabbit_channel_interceptor).

-export([description/0, init/1, intercept/3, applies_to/0]).
-export([register/0, unregister/0, claimants/0, look/1]).

-include("rabbit_itc.hrl").

-define(NAME, <<"rabbitmq_itc">>).
%% The place in the dictionary of a channel's process.
-define(TELLING, '$rabbitmq_itc').
%% A reader cancels a consumer of this name, which there is not, to have all channels say where they
%% stand: nothing that it has read before tells it.
-define(ASKED, <<"itc.channels">>).
-define(REPLIES, <<"amq.rabbitmq.reply-to">>).
%% An interceptor that claims one of these may change what the broker then does.
-define(TOLD, ['basic.ack', 'basic.nack', 'basic.reject', 'basic.recover', 'basic.recover_async',
               'tx.select', 'tx.commit', 'tx.rollback']).
%% The records that a channel may tell of nothing, and how many it earns with a second and with a
%% delivery: it may be got in another manner than the one before, settled, and that be committed.
-define(MOST, 600).
-define(PER_SECOND, 50).
-define(PER_DELIVERY, 3).
%% A look is due after so many records.
-define(LOOK, 100).
%% Consumers may have been cancelled: after so many manners more those that there are are told anew.
-define(MANNERS, 64).
%% Tags that no delivery has are told as this one, which the service can store.
-define(LAST_TAG, 16#0FFFFFFFFFFFFFFF).

%% The phase is `quiet' before the channel has taken anything, then `told'; `spent' once it has told
%% more than it may, until a time; `mute' where what it takes has tags that no trace counts.
-record(telling, {phase, next_tag, transactional, is_settled = false, is_reader = false,
                  consumers = 0, manners = #{}, is_auto = false,
                  left = ?MOST, at, fresh = 0, look = none}).

%% @doc Begin to see the methods of all channels; `init/1' is called in each that there is.
register() ->
    rabbit_registry:register(channel_interceptor, ?NAME, ?MODULE).

%% @doc See none any more.
unregister() ->
    rabbit_registry:unregister(channel_interceptor, ?NAME).

%% @doc The other interceptors that claim methods which are told here.
claimants() ->
    [Module || {_, Module} <- rabbit_registry:lookup_all(channel_interceptor),
               Module =/= ?MODULE,
               Module:applies_to() -- (Module:applies_to() -- ?TOLD) =/= []].

%% @doc Have the broker call `init/1' in a channel; it answers the watch, which does not listen.
look(Channel) ->
    Channel ! {'$gen_call', {whereis(rabbit_itc_watch), make_ref()}, refresh_interceptors},
    ok.

description() ->
    [{description, <<"Settlements for rabbitmq-itc">>}].

%% The broker closes channels for which two interceptors claim one method. It hands each method to
%% each of them all the same, and nothing is changed here, so nothing has to be claimed.
applies_to() ->
    [].

%% @doc The state of a channel that is opened, or whose interceptors have changed, or that is looked
%% at: in a traced virtual host it tells where the channel stands.
init(Ch) ->
    try
        VHost = rabbit_channel:get_vhost(Ch),
        User = rabbit_channel:get_user(Ch),
        {ok, {Connection, Number}} = rabbit_misc:get_proc_name(),
        Place = rabbit_itc_record:place(VHost, Connection, Number, element(2, User)),
        case claimants() of
            [] ->
                put(?TELLING, looked(Ch, get(?TELLING), Place)),
                Place#{user => User, context => context(Ch)};
            _ ->
                passive
        end
    catch
        Class:Reason:Stack ->
            rabbit_itc_watch:failed(Class, Reason, Stack),
            passive
    end.

intercept(Method, Content, passive) ->
    {Method, Content};
intercept(Method, Content, Place) ->
    try
        seen(Method, Place)
    catch
        Class:Reason:Stack -> rabbit_itc_watch:failed(Class, Reason, Stack)
    end,
    {Method, Content}.

%% Publishes come first, because they are the most.
seen(#'basic.publish'{}, _) ->
    ok;
seen(Method, Place) ->
    case get(?TELLING) of
        undefined -> ok;
        Telling -> put(?TELLING, seen(Method, Telling, Place))
    end.

seen(_, Telling = #telling{phase = spent, at = Until}, _) ->
    case now_s() < Until of
        true -> Telling;
        false -> looked_at(anew, Telling)
    end;
seen(#'basic.consume'{queue = Queue, no_ack = Auto}, Telling, Place) ->
    case is_untold(Queue) of
        true -> looked_at(anew, Telling); % by then the broker has allowed it, or closed the channel
        false -> takes(<<"consumer">>, Queue, Auto, begun(Queue, Telling, Place), Place)
    end;
seen(#'basic.get'{queue = Queue, no_ack = Auto}, Telling, Place) ->
    case is_untold(Queue) of
        true -> silence(mute, Telling, Place);
        false -> takes(<<"get">>, Queue, Auto, begun(Queue, Telling, Place), Place)
    end;
seen(Method, Telling = #telling{phase = told}, Place) ->
    told(Method, Telling, Place);
seen(#'tx.select'{}, Telling, _) ->
    Telling#telling{transactional = true};
seen(#'basic.cancel'{consumer_tag = ?ASKED}, Telling = #telling{is_reader = true}, #{vhost := VHost}) ->
    rabbit_itc_watch:ask(VHost),
    Telling;
seen(_, Telling, _) ->
    Telling.

told(#'basic.ack'{delivery_tag = Tag, multiple = Multiple}, Telling, Place) ->
    settled(<<"acknowledged">>, Tag, Multiple, Telling, Place);
told(#'basic.nack'{delivery_tag = Tag, multiple = Multiple, requeue = Requeue}, Telling, Place) ->
    settled(outcome(Requeue), Tag, Multiple, Telling, Place);
told(#'basic.reject'{delivery_tag = Tag, requeue = Requeue}, Telling, Place) ->
    settled(outcome(Requeue), Tag, false, Telling, Place);
told(#'basic.recover'{requeue = true}, Telling, Place) ->
    tell(<<"recovered">>, [], Telling, Place);
told(#'basic.recover_async'{requeue = true}, Telling, Place) ->
    tell(<<"recovered">>, [], Telling, Place);
told(#'tx.select'{}, Telling = #telling{transactional = false}, Place) ->
    tell(<<"selected">>, [], Telling#telling{transactional = true}, Place);
told(#'tx.commit'{}, Telling = #telling{is_settled = true}, Place) ->
    tell(<<"committed">>, [], Telling#telling{is_settled = false}, Place);
told(#'tx.rollback'{}, Telling = #telling{is_settled = true}, Place) ->
    tell(<<"rolled_back">>, [], Telling#telling{is_settled = false}, Place);
told(_, Telling, _) ->
    Telling.

outcome(true) -> <<"returned">>;
outcome(false) -> <<"rejected">>.

settled(Outcome, Tag, Multiple, Telling, Place) ->
    Stored = min(Tag, ?LAST_TAG),
    tell(<<"settled">>, [text(<<"outcome">>, Outcome), {<<"delivery_tag">>, long, Stored},
                         {<<"multiple">>, bool, Multiple}],
         claimed(Stored, Telling#telling{is_settled = Telling#telling.transactional}), Place).

%% Before the first thing that a channel takes, say where it stands. Whoever takes what it may not has
%% its channel closed, and is told of by no record.
begun(Queue, Telling = #telling{phase = quiet}, Place) ->
    case is_allowed(Queue, Place) of
        true -> begin_told(Telling, Place);
        false -> looked_at(anew, Telling#telling{phase = mute})
    end;
begun(_, Telling, _) ->
    Telling.

%% The manner in which a channel takes from a queue is told where it is another than before: who
%% consumes and cancels, or looks into an empty queue, all the time makes no records. Gets are told
%% of channels alone that take without acknowledgement as well.
takes(Event, Queue, Auto, Telling = #telling{phase = told, manners = Manners, is_auto = Was}, Place) ->
    Manner = {Event, Queue},
    Next = Telling#telling{manners = Manners#{Manner => Auto}, is_auto = Was orelse Auto},
    case maps:get(Manner, Manners, none) of
        Auto ->
            Telling;
        none when Event =:= <<"get">>, not Auto, not Was ->
            Telling;
        none when map_size(Manners) >= Telling#telling.consumers + ?MANNERS ->
            tell(Event, manner(Queue, Auto), looked_at(anew, Next), Place);
        none when Event =:= <<"consumer">> -> % as a client may have any number of
            tell_manner(Event, Queue, Auto, Place),
            Next;
        _ ->
            tell(Event, manner(Queue, Auto), Next, Place)
    end;
takes(_, _, _, Telling, _) ->
    Telling.

tell_manner(Event, Queue, Auto, Place) ->
    rabbit_itc_record:tell(Event, manner(Queue, Auto), Place).

manner(Queue, Auto) ->
    [text(<<"queue">>, Queue), {<<"auto">>, bool, Auto}].

%% What comes of direct replies is counted and not traced before 4.2 (since then each such queue has a
%% name of its own behind theirs; a pattern of binaries is not loaded by newer Erlangs). Whoever reads a trace queue
%% acknowledges its records: told, each would lead to the next.
is_untold(Queue) ->
    string:prefix(Queue, ?REPLIES) =/= nomatch orelse rabbit_itc_record:is_ours(Queue).

is_allowed(Queue, #{vhost := VHost, user := User, context := Context}) ->
    Resource = rabbit_misc:r(VHost, queue, Queue),
    try
        ok =:= rabbit_access_control:check_resource_access(User, Resource, read, Context)
    catch
        exit:Error when element(1, Error) =:= amqp_error -> false
    end.

%% Tell a record, or that nothing more is told, so that what a flood tells is bounded.
tell(_, _, Telling = #telling{left = 0, manners = Manners}, Place) ->
    Until = now_s() + (?MOST + map_size(Manners)) div ?PER_SECOND,
    (silence(spent, Telling, Place))#telling{at = Until};
tell(Event, Fields, Telling = #telling{left = Left, fresh = Fresh}, Place) ->
    rabbit_itc_record:tell(Event, Fields, Place),
    Next = Telling#telling{left = Left - 1, fresh = Fresh + 1},
    case Fresh < ?LOOK of
        true -> Next;
        false -> looked_at(credit, Next)
    end.

%% Tell no more, so that what the channel has been handed and is handed is not known.
silence(Phase, Telling, Place) ->
    is_told(Telling) andalso rabbit_itc_record:tell(<<"silent">>, [], Place),
    Telling#telling{phase = Phase}.

text(Name, Value) ->
    {Name, longstr, Value}.

now_s() ->
    erlang:monotonic_time(second).

%% Have the channel be looked at, once for whatever it is for.
looked_at(Purpose, Telling = #telling{look = Before}) ->
    Before =:= none andalso look(self()),
    Telling#telling{look = case Before of anew -> anew; _ -> Purpose end}.

%% The fields of the broker's record are read by their places, which are the same from 3.8 to 4.3;
%% where they do not fit, nothing is told and the service does not know the channel's tags.
looked(Ch, Telling, Place) ->
    case rabbit_itc_record:is_traced(Place) of
        true when element(1, Ch) =:= ch, is_integer(element(5, Ch)),
                  element(2, element(2, Ch)) =/= closing ->
            looked(Telling, element(5, Ch), Ch, Place);
        _ ->
            undefined
    end.

looked(Telling = #telling{phase = spent, look = Purpose}, _, _, _) when Purpose =/= anew ->
    Telling#telling{look = none};
looked(Telling = #telling{look = credit}, NextTag, _, _) ->
    credited(Telling, NextTag);
looked(Telling, NextTag, Ch, Place) ->
    Consumers = consumers(Ch),
    New = #telling{phase = quiet, next_tag = NextTag, transactional = element(4, Ch) =/= none,
                   left = left(Telling, NextTag), at = now_s()},
    case {[Queue || {Queue, _} <- Consumers, is_untold(Queue)], Consumers, NextTag} of
        {[], [], 1} ->
            New;
        {[], _, _} ->
            Told = begin_told(New, Place),
            [tell_manner(<<"consumer">>, Queue, Auto, Place) || {Queue, Auto} <- Consumers],
            Manners = maps:from_list([{{<<"consumer">>, Queue}, Auto} || {Queue, Auto} <- Consumers]),
            Told#telling{manners = Manners, consumers = map_size(Manners),
                         is_auto = lists:keymember(true, 2, Consumers),
                         is_settled = Told#telling.transactional}; % for all that is known
        {Untold, _, _} ->
            is_told(Telling) andalso rabbit_itc_record:tell(<<"silent">>, [], Place),
            New#telling{phase = mute, is_reader = lists:any(fun rabbit_itc_record:is_ours/1, Untold)}
    end.

%% Say where the channel stands: what is handed over from here on has this tag and those after it.
begin_told(Telling = #telling{next_tag = NextTag, transactional = Transactional}, Place) ->
    rabbit_itc_watch:watch(self(), maps:with([vhost, fields], Place)),
    rabbit_itc_record:tell(<<"channel">>, [text(<<"pid">>, rabbit_itc_record:pid_text(self())),
                                           {<<"next_tag">>, long, NextTag},
                                           {<<"transactional">>, bool, Transactional}], Place),
    Telling#telling{phase = told}.

is_told(Telling) ->
    is_record(Telling, telling) andalso Telling#telling.phase =:= told.

left(Telling, NextTag) ->
    case is_told(Telling) of
        true -> (credited(Telling, NextTag))#telling.left;
        false -> ?MOST
    end.

credited(Telling = #telling{left = Left, at = At}, NextTag) ->
    Now = now_s(),
    Earned = max(Left, min(?MOST, Left + (Now - At) * ?PER_SECOND)),
    (claimed(NextTag - 1, Telling#telling{left = Earned}))#telling{at = Now, fresh = 0, look = none}.

%% What was handed over up to a tag, by which records are earned. A client's word is taken for it until
%% the next look: the broker closes a channel over a tag that it has not given.
claimed(Tag, Telling = #telling{next_tag = Next, left = Left}) when Tag >= Next ->
    Telling#telling{next_tag = Tag + 1, left = Left + (Tag + 1 - Next) * ?PER_DELIVERY};
claimed(_, Telling) ->
    Telling.

%% What the broker knows of a connection, by which it may permit things.
context(Ch) ->
    hd([Field || Field <- tuple_to_list(element(2, Ch)), is_map(Field)] ++ [#{}]).

%% The queue and manner of each consumer. Before 4.2 the consumer of direct replies is no entry of
%% the map of consumers, but three texts of their own.
consumers(Ch) ->
    Fields = tuple_to_list(Ch),
    Direct = [{?REPLIES, true} || {Tag, A, B} <- Fields, is_binary(Tag), is_binary(A), is_binary(B)],
    case [Field || Field <- Fields, is_map(Field)] of
        [Mapping | _] ->
            [{name(amqqueue:get_name(Queue)), element(1, Parameters)}
             || {Tag, {Queue, Parameters}} <- maps:to_list(Mapping), is_binary(Tag)] ++ Direct;
        [] ->
            Direct
    end.

name({resource, _, queue, Name}) ->
    Name.
