#!/usr/bin/perl
# A KV cache of one attention layer, judged over a pipe: kv-conformance check 'cmd:perl driver.pl'
# Numbers travel as bits, because not every Perl rounds decimals correctly. Core modules only.
use strict;
use warnings;
use JSON::PP;
use List::Util 'max';

$| = 1;
my $json  = JSON::PP->new->canonical;
my @NAMES = qw(query key value output);
my (%objects, $handles);
sub standing { $objects{ ++$handles } = shift; return { handle => $handles } }

# ---- numbers, arrays, refusals

sub number_in  { unpack 'd>', pack 'H16', shift }
sub number_out { unpack 'H16', pack 'd>', shift }
sub array_in   { my $given = shift; return { shape => $given->{shape}, data => [ map { number_in($_) } @{ $given->{data} } ] } }
sub array_out {
    my ($shape, @data) = @_;
    return { dtype => 'float64', shape => [ map { $_ + 0 } @$shape ], data => [ map { number_out($_) } @data ] };
}
sub refuse { my ($kind, %details) = @_; die { kind => $kind, %details } }
sub finite {
    my ($stage, @numbers) = @_;
    for my $i (0 .. $#numbers) {
        next if $numbers[$i] == $numbers[$i] && abs($numbers[$i]) != 9**9**9;
        refuse('non_finite', stage => $stage, index => $i, value => number_out($numbers[$i]));
    }
    return @numbers;
}

# ---- the layer

sub build_layer {
    my $r = shift;
    $r->{config}{rope}{base} = number_in($r->{config}{rope}{base});
    return standing({ config => $r->{config}, map { $_ => { revision => 0, %{ array_in($r->{parameters}{$_}) } } } @NAMES });
}

sub update_parameters {
    my $r = shift;
    for my $name (keys %{ $r->{parameters} }) {
        $r->{layer}{$name}{data} = array_in($r->{parameters}{$name})->{data};
        $r->{layer}{$name}{revision}++;
    }
    return undef;
}

sub project {
    my ($row, $weights, $width) = @_;
    my @result = (0) x $width;
    for my $i (0 .. $#$row) { $result[$_] += $row->[$i] * $weights->[ $i * $width + $_ ] for 0 .. $width - 1 }
    return @result;
}

sub rotated {
    my ($position, $c, @heads) = @_;
    my ($d, $rope, @result) = ($c->{head_width}, $c->{rope}, @heads);
    for (my $start = 0 ; $start < @heads ; $start += $d) {
        for my $i (0 .. $d / 2 - 1) {
            my $angle = $position * $rope->{base}**(-2 * $i / $d);
            my ($l, $r) = $rope->{pairing} eq 'adjacent' ? ($start + 2 * $i, $start + 2 * $i + 1) : ($start + $i, $start + $i + $d / 2);
            $result[$l] = $heads[$l] * cos($angle) - $heads[$r] * sin($angle);
            $result[$r] = $heads[$l] * sin($angle) + $heads[$r] * cos($angle);
        }
    }
    return @result;
}

# ---- the cache: keys and values of lane b, key/value head g, slot t at {keys}[b][g][t]

sub build_cache {
    my $r = shift;
    my ($layer, $B, $C) = @$r{qw(layer batch_size capacity)};
    refuse('zero_batch_size') if $B < 1;
    refuse('zero_capacity') if $C < 1;
    refuse('capacity_exceeds_positions') if $C > $layer->{config}{rope}{max_positions};
    my %revisions = map { $_ => $layer->{$_}{revision} } @NAMES;
    my @lanes = map { [ map { [] } 1 .. $layer->{config}{kv_heads} ] } 1 .. $B;
    my @more  = map { [ map { [] } 1 .. $layer->{config}{kv_heads} ] } 1 .. $B;
    return standing({ layer => $layer, revisions => \%revisions, B => $B, C => $C, n => 0, keys => \@lanes, values => \@more });
}

sub append {
    my $r = shift;
    my ($layer, $cache, $rows) = ($r->{layer}, $r->{cache}, array_in($r->{rows}));
    my ($shape, $own, $tied) = ($rows->{shape}, $layer->{config}, $cache->{layer}{config});
    refuse('input_rank') if @$shape != 3;
    refuse('single_token_required') if $shape->[1] != 1;
    refuse('input_batch_mismatch') if $shape->[0] != $cache->{B};
    refuse('input_width_mismatch') if $shape->[2] != $own->{model_width};
    refuse('cache_model_width_mismatch') if $own->{model_width} != $tied->{model_width};
    refuse('cache_head_count_mismatch') if $own->{heads} != $tied->{heads} || $own->{kv_heads} != $tied->{kv_heads};
    refuse('cache_head_width_mismatch') if $own->{head_width} != $tied->{head_width};
    refuse('cache_layer_mismatch') if grep { $layer->{$_} != $cache->{layer}{$_} } @NAMES;
    for my $i (0 .. 3) {
        my ($was, $is) = ($cache->{revisions}{ $NAMES[$i] }, $layer->{ $NAMES[$i] }{revision});
        refuse('cache_layer_revision_mismatch', parameter => $i, expected => $was, found => $is) if $was != $is;
    }
    refuse('full') if $cache->{n} >= $cache->{C};

    my ($D, $H, $G, $d, $n) = (@$own{qw(model_width heads kv_heads head_width)}, $cache->{n});
    my (@output, @keys, @values);
    for my $b (0 .. $cache->{B} - 1) {
        my @row = @{ $rows->{data} }[ $b * $D .. ($b + 1) * $D - 1 ];
        my @query = finite('query', project(\@row, $layer->{query}{data}, $H * $d));
        my @key   = finite('key',   project(\@row, $layer->{key}{data},   $G * $d));
        my @value = finite('value', project(\@row, $layer->{value}{data}, $G * $d));
        @query = finite('rotated_query', rotated($n, $own, @query));
        @key   = finite('rotated_key',   rotated($n, $own, @key));
        my @merged;
        for my $h (0 .. $H - 1) {
            my $g = int($h / ($H / $G));
            my @q = @query[ $h * $d .. ($h + 1) * $d - 1 ];
            my @k = (@{ $cache->{keys}[$b][$g] },   [ @key[ $g * $d .. ($g + 1) * $d - 1 ] ]);
            my @v = (@{ $cache->{values}[$b][$g] }, [ @value[ $g * $d .. ($g + 1) * $d - 1 ] ]);
            my @weights;
            for my $key (@k) { my $dot = 0; $dot += $q[$_] * $key->[$_] for 0 .. $d - 1; push @weights, $dot / sqrt($d) }
            finite('score', @weights);
            my ($largest, $total) = (max(@weights), 0);
            $total += $_ = exp($_ - $largest) for @weights;
            my @mixed = (0) x $d;
            for my $t (0 .. $n) { $mixed[$_] += $weights[$t] / $total * $v[$t][$_] for 0 .. $d - 1 }
            push @merged, @mixed;
        }
        push @output, finite('output', project(\@merged, $layer->{output}{data}, $D));
        push @keys, [@key];
        push @values, [@value];
    }
    for my $b (0 .. $cache->{B} - 1) {
        for my $g (0 .. $G - 1) {
            push @{ $cache->{keys}[$b][$g] },   [ @{ $keys[$b] }[ $g * $d .. ($g + 1) * $d - 1 ] ];
            push @{ $cache->{values}[$b][$g] }, [ @{ $values[$b] }[ $g * $d .. ($g + 1) * $d - 1 ] ];
        }
    }
    $cache->{n}++;
    return { output => array_out([ $cache->{B}, 1, $D ], @output), length => $cache->{n} };
}

sub observe {
    my $cache = shift->{cache};
    my $c     = $cache->{layer}{config};
    my %seen  = (length => $cache->{n}, capacity => $cache->{C} + 0);
    for my $name (qw(keys values)) {
        my @flat = map { map { map { @$_ } @$_ } @$_ } @{ $cache->{$name} };
        $seen{$name} = array_out([ $cache->{B}, $c->{kv_heads}, $cache->{n}, $c->{head_width} ], @flat);
    }
    return \%seen;
}

sub reset_cache {
    my $cache = shift->{cache};
    $cache->{n} = 0;
    for my $name (qw(keys values)) { @$_ = () for map { @$_ } @{ $cache->{$name} } }
    return undef;
}

# ---- the protocol

my %declaration = (name => 'perl example', levels => ['layer'], features => [qw(gqa update_parameters)]);
my %requests = (
    hello => sub { return { protocol => 1, numbers => 'bits', declaration => \%declaration } },
    echo  => sub {
        my $values = array_in(shift->{values});
        return { values => array_out($values->{shape}, @{ $values->{data} }), bits => [ map { number_out($_) } @{ $values->{data} } ] };
    },
    drop => sub { delete @objects{ @{ shift->{handles} } }; return undef },
    bye  => sub { return undef },
    build_layer => \&build_layer, build_cache => \&build_cache, append => \&append, observe => \&observe,
    reset => \&reset_cache, update_parameters => \&update_parameters,
);

while (my $line = <STDIN>) {
    my $request = $json->decode($line);
    my ($seq, $method) = @$request{qw(seq method)};
    my $result = eval {
        die "there is no request $method\n" unless $requests{$method};
        for my $name (grep { exists $request->{$_} } qw(layer cache)) {
            $request->{$name} = $objects{ $request->{$name} } or die "$name does not stand\n";
        }
        $requests{$method}->($request);
    };
    my $reply = !$@ ? { result => $result } : ref $@ ? { rejected => $@ } : { error => { message => "$@" } };
    print $json->encode({ seq => $seq, %$reply }), "\n";
    last if $method eq 'bye';
}
