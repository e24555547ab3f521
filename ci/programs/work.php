<?php
mt_srand(7);
$all = [];
for ($i = 0; $i < 30000; $i++) {
    $all["key$i"] = ['text' => str_repeat(chr(97 + $i % 26), $i % 300), 'number' => mt_rand(), 'list' => range(0, $i % 20)];
    if ($i % 3 == 0) unset($all['key' . intdiv($i, 2)]);
}
uasort($all, fn($a, $b) => $a['number'] <=> $b['number']);
$json = json_encode($all);
$again = json_decode($json, true);
echo count($again), ' ', md5($json), ' ', md5(serialize($again)), "\n";
preg_match_all('/"text":"(a+)"/', $json, $found);
echo count($found[1]), ' ', md5(implode(',', $found[1])), "\n";
class Node { public $next; public $data; }
for ($round = 0; $round < 50; $round++) {
    $first = $last = new Node;
    for ($i = 0; $i < 500; $i++) { $last->next = new Node; $last = $last->next; $last->data = "d$i"; }
    $last->next = $first; // a cycle, for the collector
}
echo gc_collect_cycles() > 0 ? 'collected' : 'none', "\n";
function numbers($n) { for ($i = 0; $i < $n; $i++) yield $i => str_pad("$i", 10, '0', STR_PAD_LEFT); }
$sum = '';
foreach (numbers(20000) as $text) $sum = md5($sum . $text);
echo $sum, ' ', md5(gzcompress(str_repeat($sum, 5000))), "\n";
