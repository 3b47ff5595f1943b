"""The studio: a log in, a decision out, in the browser, on this machine.

server      the application and its addresses; what is asked is checked here, once
guard       who may ask: this machine, this page, this token; the headers of every answer
workspace   the folder of logs and runs; nothing outside it is read or written by a name from the page
workers     work is done in processes of their own, which may be stopped or fall over
worker      such a process: a task a line in, stages and an answer a line out
log_tasks   what is asked of a log;  fit_tasks  what is asked of a run;  learn_task  a run made
handed_task a policy for other systems; policies judged side by side
jobs        what is being made, and the queue before it;  compared  runs side by side
asked       what the page may ask for, as typed values;  page_words  advice as the pages say it
page/       what the browser gets: ES modules and one style; vendor/ has the chart library
"""
