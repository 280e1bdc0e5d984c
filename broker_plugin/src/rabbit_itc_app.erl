%% @doc The plugin's start and stop, with the broker's `rabbitmq-plugins enable' and `disable'.
-module(rabbit_itc_app).

-behaviour(application).
-behaviour(supervisor).

-export([start/2, stop/1, init/1]).

start(_, _) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

stop(_) ->
    ok.

init([]) ->
    rabbit_itc_collectors:remember(), % the watch, which ends last, looks into it
    Supervisor = #{id => rabbit_itc_collectors_sup, start => {rabbit_itc_collectors, start_supervisor, []},
                   type => supervisor},
    Collectors = #{id => rabbit_itc_collectors, start => {rabbit_itc_collectors, start_link, []}},
    Watch = #{id => rabbit_itc_watch, start => {rabbit_itc_watch, start_link, []}, shutdown => 20000},
    {ok, {#{intensity => 10, period => 60}, [Watch, Supervisor, Collectors]}}.
